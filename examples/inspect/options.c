/* The options and commands of fovea-inspect: tables, of which cli/ makes the parser, --help, the man page (fovea-inspect
 * man) and the shell completion (fovea-inspect completion). */
#include "cli.h"
#include "inspect.h"
#include "model_place.h"

#include <stddef.h>
#include <stdlib.h>

enum { COST = 1, SIMILARITY = 2, ATTENTION = 4 };

#define AT(field) offsetof(inspect_options, field)
#define SIZE 1, 1 << 24

/* "5.3": head 3 of layer 5. */
static bool read_head(void *at, const char *text, const cli_option *option) {
    enum { MOST = 1 << 16 };
    char *end;
    inspect_head *head = at;
    (void)option;
    if (*text < '0' || *text > '9')
        return false;
    head->layer = strtoll(text, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    head->head = strtoll(end + 1, &end, 10);
    return *end == '\0' && head->layer <= MOST && head->head <= MOST;
}

static const cli_option options_table[] = {
    {"--d-model", "N", "768", cli_read_number, SIZE, AT(d_model), COST,
     "channels of the layer's input (must be given)"},
    {"--heads", "N", "12", cli_read_number, 1, 1 << 16, AT(heads), COST | SIMILARITY | ATTENTION,
     "heads (cost: must be given; else: in place of what config.json beside the file says)"},
    {"--kv-heads", "N", "4", cli_read_number, 1, 1 << 16, AT(kv_heads), COST | SIMILARITY,
     "heads of keys and values, which groups of heads share (default: as many as heads; similarity: from config.json, "
     "or what the file's sizes say)"},
    {"--d-k", "N", "64", cli_read_number, SIZE, AT(d_k), COST,
     "channels of a head's queries and keys (default: d-model / heads)"},
    {"--d-v", "N", "64", cli_read_number, SIZE, AT(d_v), COST, "channels of a head's values (default: d-k)"},
    {"--d-out", "N", "768", cli_read_number, 0, 1 << 24, AT(d_out), COST,
     "channels of the layer's output (default: d-model; 0: no W^O)"},
    {"--q-len", "N", "512", cli_read_number, SIZE, AT(q_len), COST, "queries of a sequence (default: 512)"},
    {"--kv-len", "N", "512", cli_read_number, SIZE, AT(kv_len), COST,
     "keys of a sequence (default: q-len; another number: cross-attention)"},
    {"--batch", "N", "8", cli_read_number, SIZE, AT(batch), COST, "sequences (default: 1)"},
    {"--biases", NULL, NULL, NULL, 0, 0, AT(biases), COST, "projections have biases"},
    {"--causal", NULL, NULL, NULL, 0, 0, AT(causal), COST, "no query sees later keys (the last one sees all)"},
    {"--measure", NULL, NULL, NULL, 0, 0, AT(measure), COST,
     "run each form, taking turns, and show the median time and its ratio to form 1's"},
    {"--seconds", "N", "10", cli_read_number, 1, 3600, AT(seconds), COST, "how long to measure (default: 5)"},
    {"--csv", "FILE", "@file costs.csv", cli_read_text, 0, 0, AT(csv), COST | SIMILARITY | ATTENTION,
     "write all figures to FILE (-: to standard output, in place of the table)"},
    {"--svg", "FILE", "@file heads.svg", cli_read_text, 0, 0, AT(svg), SIMILARITY,
     "draw heat maps of layers x heads into FILE, with histograms"},
    {"--samples", "N", "32", cli_read_number, 2, 1 << 16, AT(samples), SIMILARITY,
     "how many random heads to compare with (default: 32)"},
    {"--model", "PATH", "@file build/models/all-MiniLM-L6-v2", cli_read_text, 0, 0, AT(model), ATTENTION,
     "a folder with model.safetensors, its config.json, and vocab.txt, tokenizer.json, or vocab.json with merges.txt; "
     "or a "
     "safetensors file beside these (" MODEL_PLACE_HELP ")"},
    {"--rank", "ORDER",
     "most-alike least-alike most-symmetric least-symmetric lowest-rank highest-rank most-alike-qv most-alike-kv "
     "by-name",
     cli_read_choice, 0, 0, AT(rank), SIMILARITY,
     "list all heads in that order: most-alike or least-alike (Q and K, by their mean angle), most-symmetric, "
     "least-symmetric, lowest-rank, highest-rank, most-alike-qv, most-alike-kv, by-name (layer by layer)"},
    {"--top", "N", "10", cli_read_number, 1, 1 << 24, AT(top), SIMILARITY,
     "how many heads a list has (default: 5; with --rank: all)"},
    {"--head", "L.H", "@text 5.3", read_head, 0, 0, AT(head), SIMILARITY | ATTENTION,
     "only head H of layer L, both counted from 0"},
    {"--json", "FILE", "@file heads.json", cli_read_text, 0, 0, AT(json), SIMILARITY | ATTENTION,
     "write all figures to FILE as JSON (-: to standard output)"},
    {"--layer", "N", "5", cli_read_number, 0, 1 << 16, AT(layer), ATTENTION, "this layer only, counted from 0"},
    {"--output", "FILE", "@file attention.svg", cli_read_text, 0, 0, AT(output), ATTENTION,
     "the SVG file to write (-: standard output; default: attention.svg, unless --csv or --json is given)"},
    {"--threads", "N", "2", cli_read_number, 1, 4096, AT(threads), COST | SIMILARITY | ATTENTION,
     "threads (default: all CPUs this process may use)"},
};
static const cli_command commands[] = {
    {"cost", COST, 0, 0, "--d-model N --heads N", "--d-model 768 --heads 12",
     "print parameters, flops, bytes moved and scratch of a multi-head layer in every form of fovea_mha, as "
     "fovea_mha_cost computes them; with --measure also the time"},
    {"similarity", SIMILARITY, 1, INSPECT_WORDS, "FILE...", "model.safetensors --csv heads.csv",
     "print how alike W^Q, W^K and W^V of each head of a model are. FILE is a safetensors file, or several, a folder, "
     "or "
     "a model.safetensors.index.json; config.json beside it says how many heads there are. Names of BERT, GPT-2, "
     "LLaMA, "
     "T5 and some 20 other families are known, fused or not. Figures: cosine; distance |A-B| / sqrt(|A|^2+|B|^2); "
     "principal angles between column spaces; "
     "of W = W^Q W^K^T the symmetric share |W+W^T|^2 / (4|W|^2) and the effective rank exp(entropy of its singular "
     "values); all beside the same figures of random matrices"},
    {"attention", ATTENTION, 1, INSPECT_WORDS, "SENTENCE", "\"How tall is the insect?\"",
     "draw the attention weights of a sentence in a BERT, RoBERTa, ELECTRA, DistilBERT, GPT-2 or OPT, head by head; "
     "print for each head the "
     "entropy of its weights in bits, and how much falls on [CLS], [SEP], the first token, the token itself, the one "
     "before and the one after"},
};
static const cli_kind kinds[] = {{"L.H", "a layer and a head, as L.H"}, {"PATH", "a folder or a file"}};
static const char exit_statuses[] = "0 good; 1 something failed, no file was changed; 2 wrong usage";
static const char environment[] = "FOVEA_MODEL=PATH is the model of attention, if --model is not given";
static const char summary[] = "what attention costs, how alike its matrices are, and what it looks at";

int inspect_options_read(int argc, char **argv, inspect_options *options) {
    const cli program = {.program = "fovea-inspect",
                         .version = fovea_version(),
                         .summary = summary,
                         .exit_statuses = exit_statuses,
                         .environment = environment,
                         .commands = commands,
                         .command_count = sizeof commands / sizeof commands[0],
                         .options = options_table,
                         .option_count = sizeof options_table / sizeof options_table[0],
                         .kinds = kinds,
                         .kind_count = sizeof kinds / sizeof kinds[0]};
    const cli_command *command;
    *options = (inspect_options){.d_out = -1, .rank = -1, .layer = -1, .head = {-1, -1}};
    const int status = cli_read(&program, argc, argv, options, &command, options->words, &options->word_count);
    if (status >= 0)
        return status;
    options->command = command->name;
    if (command->bit == COST && (options->d_model == 0 || options->heads == 0))
        return cli_missing(&program, command, options->d_model == 0 ? "--d-model" : "--heads");
    return -1;
}
