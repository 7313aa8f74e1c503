/* The command line of fovea-generate (run.h). */
#include "run.h"

#include "cli.h"

#include <stddef.h>

static const fovea_dtype dtypes[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8};
static const char dtype_words[] = "f32 bf16 f16", cache_words[] = "f32 bf16 f16 int8";
static const char *const dtype_names[] = {"f32", "bf16", "f16", "int8"};

int options_read(int argc, char **argv, options *opts) {
#define OPTION(name) offsetof(options, name), 1
    static const cli_option table[] = {
        {"--model", "PATH", "@directory build/models/SmolLM2-135M-Instruct", cli_read_text, 0, 0, OPTION(model),
         "GGUF file, safetensors file or index, or a folder with one (default: FOVEA_GENERATE_MODEL, or else "
         "SmolLM2-135M-Instruct in build/models)"},
        {"--type", "TYPE", dtype_words, cli_read_choice, 0, 0, OPTION(dtype),
         "element type of products and attention: f32, bf16 or f16 (default: bf16)"},
        {"--weights", "TYPE", "stored f32 bf16 f16", cli_read_choice, 0, 0, OPTION(weights),
         "stored: quantised weights of a GGUF file as they are, others in the type of --type; f32, bf16 or f16: all "
         "weights are converted (default: stored)"},
        {"--arithmetic", "KIND", "q16 exact q8", cli_read_choice, 0, 0, OPTION(arithmetic),
         "products with quantised weights: q16, inputs in 16 bits; exact, the bits of float32; or q8, inputs in 8 "
         "bits, less exact (default: q16)"},
        {"--cache", "TYPE", cache_words, cli_read_choice, 0, 0, OPTION(cache),
         "element type of keys and values: f32, bf16, f16 or int8 (default: that of --type)"},
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
        {"--top-p", "X", "0.9", cli_read_real, 0, 1, OPTION(top_p),
         "draw only from the most likely tokens, whose probabilities add up to X (default: 0.9)"},
        {"--seed", "N", "1", cli_read_number, 0, INT64_MAX, OPTION(seed), "seed for drawing tokens (default: 1)"},
        {"--system", "TEXT", "@text \"You are a pirate.\"", cli_read_text, 0, 0, OPTION(system),
         "system message of the chat (default: that of the model's chat template)"},
        {"--plain", NULL, NULL, NULL, 0, 0, OPTION(plain), "continue the prompt instead of answering it in a chat"},
        {"--ids", NULL, NULL, NULL, 0, 0, OPTION(ids), "print token ids instead of text"},
        {"--perplexity", "FILE", "@file " FOVEA_GENERATE_TEXT, cli_read_text, 0, 0, OPTION(perplexity),
         "print the perplexity of a text, and nothing else"},
        {"--formats", NULL, NULL, NULL, 0, 0, OPTION(formats),
         "with --perplexity: a table over formats of weights and of keys and values"},
    };
#undef OPTION
    static const cli_command command = {"",
                                        1,
                                        0,
                                        WORDS_MOST,
                                        "[PROMPT...]",
                                        "",
                                        "answer a prompt with a decoder model; the prompt - is standard input"};
    const cli program = {.program = "fovea-generate",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage; 77 there is no model",
                         .environment = "FOVEA_GENERATE_MODEL=PATH names the model if --model is not given",
                         .examples = "fovea-generate --temperature 0.7 --seed 3 \"Who keeps a lighthouse?\"",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    *opts = (options){.tokens = 200, .seed = 1, .top_p = 0.9, .dtype = 1, .cache = -1, .values = -1, .arithmetic = -1};
    const int status = cli_read(&program, argc, argv, opts, &only, opts->words, &opts->word_count);
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

const char *options_weights_name(const options *opts, bool quantised) {
    static const char *const names[] = {"stored, q16", "stored, exact", "stored, q8"};
    if (quantised)
        return names[opts->arithmetic > 0 ? opts->arithmetic : 0];
    return dtype_names[opts->weights > 0 ? opts->weights - 1 : opts->dtype];
}

const char *options_dtype_name(int type) { return dtype_names[type]; }
