/* The options and commands of fovea-inspect: tables, of which cli/ makes the parser, --help, the man page (--man) and
 * the shell completion (--completion). */
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
    {"--d-model", "N", "768", cli_read_number, SIZE, AT(d_model), COST, "channels of the layer's input (required)"},
    {"--heads", "N", "12", cli_read_number, 1, 1 << 16, AT(heads), COST | SIMILARITY | ATTENTION,
     "number of heads (cost: required; else: overrides config.json)"},
    {"--kv-heads", "N", "4", cli_read_number, 1, 1 << 16, AT(kv_heads), COST | SIMILARITY,
     "number of key-value heads, for grouped queries (default: as many as heads; similarity: from config.json or "
     "the sizes of the matrices)"},
    {"--d-k", "N", "64", cli_read_number, SIZE, AT(d_k), COST,
     "channels of a query or key in one head (default: d-model / heads)"},
    {"--d-v", "N", "64", cli_read_number, SIZE, AT(d_v), COST, "channels of a value in one head (default: d-k)"},
    {"--d-out", "N", "768", cli_read_number, 0, 1 << 24, AT(d_out), COST,
     "channels of the layer's output; 0: no W^O (default: d-model)"},
    {"--q-len", "N", "512", cli_read_number, SIZE, AT(q_len), COST, "number of queries in a sequence (default: 512)"},
    {"--kv-len", "N", "512", cli_read_number, SIZE, AT(kv_len), COST,
     "number of keys in a sequence; cross-attention if it differs from q-len (default: q-len)"},
    {"--batch", "N", "8", cli_read_number, SIZE, AT(batch), COST, "number of sequences (default: 1)"},
    {"--biases", NULL, NULL, NULL, 0, 0, AT(biases), COST, "give the projections biases"},
    {"--causal", NULL, NULL, NULL, 0, 0, AT(causal), COST, "mask later keys; the last query sees all"},
    {"--measure", NULL, NULL, NULL, 0, 0, AT(measure), COST,
     "run all forms in turn, and print the median time of each and its ratio to form 0"},
    {"--seconds", "N", "10", cli_read_number, 1, 3600, AT(seconds), COST, "how long to measure (default: 5)"},
    {"--csv", "FILE", "@file costs.csv", cli_read_text, 0, 0, AT(csv), COST | SIMILARITY | ATTENTION,
     "write all figures to FILE as CSV; - prints them in place of the table; a file of anything else is never "
     "replaced"},
    {"--svg", "FILE", "@file heads.svg", cli_read_text, 0, 0, AT(svg), SIMILARITY,
     "draw heat maps of layers x heads and histograms into FILE"},
    {"--samples", "N", "32", cli_read_number, 2, 1 << 16, AT(samples), SIMILARITY,
     "number of random heads to compare with (default: 32)"},
    {"--model", "PATH", "@file build/models/all-MiniLM-L6-v2", cli_read_text, 0, 0, AT(model), ATTENTION,
     "folder with model.safetensors, config.json and a tokenizer (vocab.txt, tokenizer.json, or vocab.json with "
     "merges.txt), or the safetensors file in such a folder (" MODEL_PLACE_HELP ")"},
    {"--rank", "ORDER",
     "most-alike least-alike most-symmetric least-symmetric lowest-rank highest-rank most-alike-qv most-alike-kv "
     "by-name",
     cli_read_choice, 0, 0, AT(rank), SIMILARITY,
     "list all heads in this order: most-alike or least-alike (Q and K, by mean angle), most-symmetric, "
     "least-symmetric, lowest-rank, highest-rank, most-alike-qv, most-alike-kv, or by-name (layer by layer)"},
    {"--top", "N", "10", cli_read_number, 1, 1 << 24, AT(top), SIMILARITY,
     "number of heads in a list (default: 5; with --rank: all)"},
    {"--head", "L.H", "@text 5.3", read_head, 0, 0, AT(head), SIMILARITY | ATTENTION,
     "only head H of layer L, both counted from 0"},
    {"--json", "FILE", "@file heads.json", cli_read_text, 0, 0, AT(json), SIMILARITY | ATTENTION,
     "write all figures to FILE as JSON; - is standard output"},
    {"--layer", "N", "5", cli_read_number, 0, 1 << 16, AT(layer), ATTENTION, "only this layer, counted from 0"},
    {"--output", "FILE", "@file attention.svg", cli_read_text, 0, 0, AT(output), ATTENTION,
     "SVG file to write, in a folder that exists; - is standard output (default: attention.svg, unless --csv or --json "
     "is "
     "given)"},
    {"--threads", "N", "2", cli_read_number, 1, 4096, AT(threads), COST | SIMILARITY | ATTENTION,
     "number of threads (default: all CPUs this process may use)"},
};
static const cli_command commands[] = {
    {"cost", COST, 0, 0, "--d-model N --heads N", "--d-model 768 --heads 12",
     "print what a multi-head layer costs in each form of fovea_mha: parameters, flops, bytes moved and scratch, and "
     "with --measure the time"},
    {"similarity", SIMILARITY, 1, INSPECT_WORDS, "FILE...", "model.safetensors --csv heads.csv",
     "print how alike W^Q, W^K and W^V are in each head of a model. FILE is one or more safetensors files, a folder, "
     "or a model.safetensors.index.json; config.json beside it gives the number of heads. BERT, GPT-2, LLaMA, T5 and "
     "some 30 other families are recognized by the names of their matrices. Figures: cosine; distance |A-C| / "
     "sqrt(|A|^2+|C|^2); principal angles between column spaces; of B = W^Q W^K^T, the symmetric share |B+B^T|^2 / "
     "(4|B|^2) and the effective rank exp(entropy of the singular values). Random matrices are shown for comparison"},
    {"attention", ATTENTION, 1, INSPECT_WORDS, "SENTENCE", "\"How tall is the insect?\"",
     "draw the attention weights of each head for a sentence. The model is a BERT, RoBERTa, ELECTRA, DistilBERT, "
     "GPT-2 or OPT. For each head, print the entropy of its weights in bits, and the weight on [CLS], [SEP], the first "
     "token, the token itself, the one before and the one after"},
};
static const cli_kind kinds[] = {{"L.H", "a layer and a head, as L.H"}, {"PATH", "a folder or a file"}};
static const char exit_statuses[] = "0 success; 1 failure: no file was changed; 2 wrong usage";
static const char environment[] = "FOVEA_MODEL=PATH names the model of attention if --model is not given";
static const char summary[] = "show what attention costs, how alike its matrices are, and what it looks at";

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
