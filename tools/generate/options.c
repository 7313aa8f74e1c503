/* The command line of fovea-generate (run.h). */
#include "run.h"

#include "cli.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const fovea_dtype dtypes[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8,
                                     FOVEA_DTYPE_I4};
static const char dtype_words[] = "f32 bf16 f16", cache_words[] = "f32 bf16 f16 int8 int4";
static const char *const dtype_names[] = {"f32", "bf16", "f16", "int8", "int4"};

/* One more string. */
static bool read_stop(void *at, const char *text, const cli_option *option) {
    stop_list *list = at;
    (void)option;
    if (*text == '\0' || list->count == STOPS_MOST)
        return false;
    list->text[list->count++] = text;
    return true;
}

#define OPTION(name) offsetof(options, name), 1
static const cli_option table[] = {
    {"--model", "PATH", "@directory build/models/SmolLM2-135M-Instruct", cli_read_text, 0, 0, OPTION(model),
     "GGUF file, safetensors file or index, or a folder with one (default: FOVEA_GENERATE_MODEL, or else "
     "SmolLM2-135M-Instruct in build/models)"},
    {"--type", "TYPE", dtype_words, cli_read_choice, 0, 0, OPTION(dtype),
     "element type of products and attention: f32, bf16 or f16 (default: bf16)"},
    {"--weights", "TYPE", "stored f32 bf16 f16", cli_read_choice, 0, 0, OPTION(weights),
     "stored: weights of a GGUF file as they are, those of safetensors in the type of --type; f32, bf16 or f16: "
     "all weights are converted (default: stored)"},
    {"--arithmetic", "KIND", "q16 exact q8", cli_read_choice, 0, 0, OPTION(arithmetic),
     "products with quantized weights: q16, inputs in 16 bits; exact, the bits of float32; or q8, inputs in 8 "
     "bits, less exact (default: q16)"},
    {"--cache", "TYPE", cache_words, cli_read_choice, 0, 0, OPTION(cache),
     "element type of keys and values: f32, bf16, f16, int8 or int4 (default: that of --type)"},
    {"--values", "TYPE", cache_words, cli_read_choice, 0, 0, OPTION(values),
     "element type of values (default: that of --cache)"},
    {"--threads", "N", "2", cli_read_int, 1, 4096, OPTION(threads),
     "number of threads (default: all CPUs this process may use)"},
    {"--tokens", "N", "200", cli_read_number, 1, 1 << 24, OPTION(tokens),
     "length of the answer in tokens, at most (default: 200)"},
    {"--context", "N", "2048", cli_read_number, 1, 1 << 24, OPTION(context),
     "room for tokens of prompt and answer together (default: 2048, or the model's limit if that is less)"},
    {"--temperature", "X", "0.7", cli_read_real, 0, 100, OPTION(temperature),
     "divides logits before a token is drawn; 0 takes the most likely token (default: 0)"},
    {"--top-k", "N", "40", cli_read_number, 0, 1 << 24, OPTION(top_k),
     "draw only from the N most likely tokens; 0 is no limit (default: 0)"},
    {"--top-p", "X", "0.9", cli_read_real, 0, 1, OPTION(top_p),
     "draw only from the most likely tokens, whose probabilities add up to X (default: 0.9)"},
    {"--min-p", "X", "0.05", cli_read_real, 0, 1, OPTION(min_p),
     "draw only from tokens that are at least X times as likely as the likeliest (default: 0)"},
    {"--repetition-penalty", "X", "1.1", cli_read_real, 0, 100, OPTION(penalty),
     "divides logits above 0 of tokens that are in the prompt or answer, and multiplies the others; above 0 "
     "(default: 1)"},
    {"--seed", "N", "1", cli_read_number, 0, INT64_MAX, OPTION(seed), "seed for drawing tokens (default: 1)"},
    {"--stop", "TEXT", "@text \"The end\"", read_stop, 0, 0, OPTION(stops),
     "ends an answer before this text; up to 16 times"},
    {"--file", "FILE", "@file text.txt", cli_read_text, 0, 0, OPTION(file), "the prompt is in a file"},
    {"--parallel", "N", "4", cli_read_number, 1, PARALLEL_MOST, OPTION(parallel),
     "answers N prompts at once, in one cache: each line of standard input or --file is one; a prompt of words is "
     "answered "
     "N times, by seeds that follow each other (default: one answer)"},
    {"--system", "TEXT", "@text \"You are a pirate.\"", cli_read_text, 0, 0, OPTION(system),
     "system message of the chat (default: that of the model's chat template)"},
    {"--plain", NULL, NULL, NULL, 0, 0, OPTION(plain), "continue the prompt instead of answering it in a chat"},
    {"--ids", NULL, NULL, NULL, 0, 0, OPTION(ids), "print token ids instead of text"},
    {"--mpi", NULL, NULL, NULL, 0, 0, OPTION(mpi), "run by mpirun: the model is spread over all ranks"},
    {"--receipt", "FILE", "@file answer.receipt", cli_read_text, 0, 0, OPTION(receipt),
     "write what others need to check each step of the answers (docs/receipts.md)"},
    {"--private-prompt", NULL, NULL, NULL, 0, 0, OPTION(private_prompt),
     "with --receipt: it has a hash of the prompt, not its tokens"},
    {"--verify", "FILE", "@file answer.receipt", cli_read_text, 0, 0, OPTION(verify),
     "check a receipt with a model, --model or the first word; if its prompt is private, the rest is the prompt"},
    {"--perplexity", "FILE", "@file text.txt", cli_read_text, 0, 0, OPTION(perplexity),
     "print the perplexity of a text, and nothing else"},
    {"--formats", NULL, NULL, NULL, 0, 0, OPTION(formats),
     "with --perplexity: a table over formats of weights and of keys and values"},
};
#undef OPTION
enum { OPTIONS = sizeof table / sizeof table[0] };

/* Settings that are not given. */
static const options absent = {.dtype = -1,
                               .weights = -1,
                               .arithmetic = -1,
                               .cache = -1,
                               .values = -1,
                               .tokens = -1,
                               .context = -1,
                               .seed = -1,
                               .top_k = -1,
                               .temperature = -1,
                               .top_p = -1,
                               .min_p = -1,
                               .penalty = -1,
                               .parallel = -1};

/* Was a setting given, other than --threads, which changes no result? */
static bool any_setting(const options *o) {
    bool any = false;
    for (int i = 0; i < OPTIONS; i++) {
        const void *at = (const char *)o + table[i].offset;
        any = any || (table[i].read == cli_read_choice && *(const int *)at >= 0) ||
              (table[i].read == cli_read_number && *(const int64_t *)at >= 0) ||
              (table[i].read == cli_read_real && *(const double *)at >= 0);
    }
    return any;
}

static void default_int(int *value, int other) { *value = *value < 0 ? other : *value; }
static void default_number(int64_t *value, int64_t other) { *value = *value < 0 ? other : *value; }
static void default_real(double *value, double other) { *value = *value < 0 ? other : *value; }

static void use_defaults(options *o) {
    default_int(&o->dtype, 1);
    default_int(&o->weights, 0);
    default_number(&o->tokens, 200);
    default_number(&o->context, 0);
    default_number(&o->seed, 1);
    default_number(&o->top_k, 0);
    default_number(&o->parallel, 0);
    default_real(&o->temperature, 0);
    default_real(&o->top_p, 0.9);
    default_real(&o->min_p, 0);
    default_real(&o->penalty, 1);
}

int options_read(int argc, char **argv, options *opts) {
    static const cli_command command = {
        "", 1, 0, WORDS_MOST, "[PROMPT...]", "", "answer prompts with a decoder model; the prompt - is standard input"};
    const cli program = {.program = "fovea-generate",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure, or a receipt that differs; 2 wrong usage, or a "
                                          "receipt that cannot be checked; 77 there is no model",
                         .environment = "FOVEA_GENERATE_MODEL=PATH names the model if --model is not given",
                         .examples = "fovea-generate --temperature 0.7 --seed 3 \"Who keeps a lighthouse?\"\n"
                                     "fovea-generate --parallel 4 --file questions.txt --stop \"The end\"\n"
                                     "fovea-generate --verify answer.receipt model.gguf",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = OPTIONS};
    const cli_command *only;
    *opts = absent;
    const int status = cli_read(&program, argc, argv, opts, &only, opts->words, &opts->word_count);
    if (status < 0 && opts->verify != NULL && any_setting(opts))
        return cli_wrong(&program, only, "--verify takes settings from the receipt: none may be given");
    use_defaults(opts);
    if (status < 0 && !(opts->penalty > 0))
        return cli_wrong(&program, only, "--repetition-penalty needs a number above 0");
    opts->cache = opts->cache < 0 ? opts->dtype : opts->cache;
    opts->values = opts->values < 0 ? opts->cache : opts->values;
    return status;
}

fovea_dtype options_dtype(int type) { return dtypes[type]; }

model_options options_types(const options *opts) {
    static const fovea_arithmetic arithmetics[] = {FOVEA_ARITHMETIC_Q16, FOVEA_ARITHMETIC_EXACT, FOVEA_ARITHMETIC_Q8};
    return (model_options){.dtype = dtypes[opts->dtype],
                           .weights = opts->weights > 0 ? dtypes[opts->weights - 1] : 0,
                           .has_arithmetic = opts->arithmetic >= 0,
                           .arithmetic = arithmetics[opts->arithmetic > 0 ? opts->arithmetic : 0]};
}

const char *options_weights_name(const options *opts, const model *m) {
    static const char *const names[] = {"stored, q16", "stored, exact", "stored, q8"};
    if (model_quantized(m))
        return names[opts->arithmetic > 0 ? opts->arithmetic : 0];
    return model_stored(m) ? "stored" : dtype_names[opts->weights > 0 ? opts->weights - 1 : opts->dtype];
}

const char *options_dtype_name(int type) { return dtype_names[type]; }

static const cli_option *option_of(const char *name) {
    const cli_option *found = table;
    while (strcmp(found->name, name) != 0)
        found++;
    return found;
}

void options_word(const options *opts, const char *option, char *word, size_t room) {
    const cli_option *o = option_of(option);
    const void *at = (const char *)opts + o->offset;
    if (o->read == cli_read_real)
        snprintf(word, room, "%.17g", *(const double *)at);
    else if (o->read == cli_read_number)
        snprintf(word, room, "%" PRId64, *(const int64_t *)at);
    else {
        const char *choice = o->values;
        for (int i = 0; i < *(const int *)at; i++)
            choice = strchr(choice, ' ') + 1;
        snprintf(word, room, "%.*s", (int)strcspn(choice, " "), choice);
    }
}

bool options_set(options *opts, const char *option, const char *word) {
    const cli_option *o = option_of(option);
    return o->read((char *)opts + o->offset, word, o);
}
