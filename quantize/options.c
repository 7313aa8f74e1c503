/* options.h. */
#include "options.h"

#include "cli.h"

#include <stddef.h>

static const struct {
    const char *name;
    fovea_dtype dtype;
} types[] = {{"q8_0", FOVEA_DTYPE_Q8_0}, {"q4_0", FOVEA_DTYPE_Q4_0}, {"q4_1", FOVEA_DTYPE_Q4_1},
             {"q4_k", FOVEA_DTYPE_Q4_K}, {"int8", FOVEA_DTYPE_I8},   {"int4", FOVEA_DTYPE_U4}};

int options_read(int argc, char **argv, options *opts) {
#define OPTION(name) offsetof(options, name), 1
    static const cli_option table[] = {
        {"--type", "TYPE", "q8_0 q4_0 q4_1 q4_k int8 int4", cli_read_choice, 0, 0, OPTION(type),
         "of the quantised weights: q8_0, q4_0, q4_1 or q4_k, written as GGUF; int8 or int4, written as safetensors"},
        {"--output", "FILE", "@file model.gguf", cli_read_text, 0, 0, OPTION(output), "the file to write"},
        {"--group-size", "N", "128", cli_read_number, 16, 1 << 20, OPTION(group_size),
         "of int8 and int4: input channels that share a scale, a multiple of 16 (default: all of int8, 32 of int4)"},
        {"--search", NULL, NULL, NULL, 0, 0, OPTION(search),
         "try several scales, and keep those of the smallest squared error"},
        {"--keep", "PATTERNS", "@text \"lm_head.*,*.down_proj.weight\"", cli_read_text, 0, 0, OPTION(keep),
         "names of tensors that stay as they are, with * and ?, parted by commas; norms, embeddings and tensors that "
         "are no matrix always do"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, OPTION(threads),
         "number of threads (default: all CPUs this process may use)"},
        {"--force", NULL, NULL, NULL, 0, 0, OPTION(force), "replace the output file if it exists"},
    };
#undef OPTION
    static const cli_command command = {
        "", 1, 0, 1, "INPUT", "model --type q4_k --output model.gguf", "quantise the weights of a model"};
    const cli program = {.program = "fovea-quantize",
                         .version = fovea_version(),
                         .description =
                             "INPUT is a safetensors file, a model.safetensors.index.json, a GGUF file, or a "
                             "folder with one of them.",
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .examples = "fovea-quantize model --type q4_k --output model.gguf",
                         .prints_pages = true,
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    const char *words[1];
    int word_count;
    *opts = (options){.type = -1};
    const int status = cli_read(&program, argc, argv, opts, &only, words, &word_count);
    if (status >= 0)
        return status;
    if (word_count == 0)
        return cli_missing(&program, &command, "INPUT");
    if (opts->type < 0)
        return cli_missing(&program, &command, "--type");
    if (opts->output == NULL)
        return cli_missing(&program, &command, "--output");
    if (opts->group_size % 16 != 0)
        return cli_wrong(&program, &command, "--group-size needs a multiple of 16");
    if (opts->group_size > 0 && options_blocks(opts))
        return cli_wrong(&program, &command, "--group-size is of int8 and int4; %s has blocks of its own",
                         options_type_name(opts));
    opts->input = words[0];
    return -1;
}

fovea_dtype options_dtype(const options *opts) { return types[opts->type].dtype; }
const char *options_type_name(const options *opts) { return types[opts->type].name; }

bool options_blocks(const options *opts) {
    return options_dtype(opts) != FOVEA_DTYPE_I8 && options_dtype(opts) != FOVEA_DTYPE_U4;
}
