/* options.h. */
#include "options.h"

#include "cli.h"

#include <stddef.h>
#include <string.h>

int options_read(int argc, char **argv, options *opts) {
#define OPTION(name) offsetof(options, name), 1
    static const cli_option table[] = {
        {"--type", "TYPE", TYPES_OF_GGUF " " TYPES_OF_SAFETENSORS, cli_read_choice, TYPE_Q8_0, 0, OPTION(type),
         "of the quantized weights: q8_0, q4_0, q4_1 or q4_k, written as GGUF; int8 or int4, written as safetensors"},
        {"--output", "FILE", "@file model.gguf", cli_read_text, 0, 0, OPTION(output), "the file to write"},
        {"--token-embedding-type", "TYPE", "keep " TYPES_OF_GGUF, cli_read_choice, TYPE_KEEP, 0, OPTION(embedding),
         "of token embeddings in GGUF (default: q8_0); keep: as they are"},
        {"--output-tensor-type", "TYPE", "keep " TYPES_OF_GGUF, cli_read_choice, TYPE_KEEP, 0, OPTION(head),
         "of the output matrix in GGUF, output.weight or lm_head.weight (default: q8_0)"},
        {"--tensor-type", "PATTERN=TYPE", "@text \"*ffn_down*=q8_0,*attn_v*=keep\"", cli_read_text, 0, 0,
         OPTION(tensor_types), "other types for some tensors of GGUF, parted by commas; the first pattern that fits"},
        {"--keep", "PATTERNS", "@text \"lm_head.*,*.down_proj.weight\"", cli_read_text, 0, 0, OPTION(keep),
         "names of tensors that stay as they are, with * and ?, parted by commas"},
        {"--group-size", "N", "128", cli_read_number, 16, 1 << 20, OPTION(group_size),
         "of int8 and int4: input channels that share a scale, a multiple of 16 (default: all of int8, 32 of int4)"},
        {"--search", NULL, NULL, NULL, 0, 0, OPTION(search),
         "try several scales, and keep those of the smallest squared error"},
        {"--allow-requantize", NULL, NULL, NULL, 0, 0, OPTION(requantize),
         "quantize weights of GGUF that are quantized already, too; both errors add up"},
        {"--threads", "N", "2", cli_read_int, 1, 4096, OPTION(threads),
         "number of threads (default: all CPUs this process may use)"},
        {"--force", NULL, NULL, NULL, 0, 0, OPTION(force), "replace the output file if it exists"},
    };
#undef OPTION
    static const cli_command command = {
        "", 1, 0, 1, "INPUT", "model --type q4_k --output model.gguf", "quantize the weights of a model"};
    const cli program = {.program = "fovea-quantize",
                         .version = fovea_version(),
                         .description =
                             "INPUT is a safetensors file, a model.safetensors.index.json, a GGUF file, or a "
                             "folder with one of them.",
                         .exit_statuses = "0 success: the file is whole, also where standard output could not be "
                                          "written; 1 failure; 2 wrong usage",
                         .examples = "fovea-quantize model --type q4_k --output model.gguf",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    const cli_command *only;
    const char *words[1], *wrong;
    int word_count;
    *opts = (options){.type = -1, .embedding = -1, .head = -1};
    const int status = cli_read(&program, argc, argv, opts, &only, words, &word_count);
    if (status >= 0)
        return status;
    if (word_count == 0)
        return cli_missing(&program, &command, "INPUT");
    if (opts->type < 0)
        return cli_missing(&program, &command, "--type");
    if (opts->output == NULL)
        return cli_missing(&program, &command, "--output");
    const bool blocks = type_in_gguf((tensor_type)opts->type);
    const char *name = type_name((tensor_type)opts->type);
    if (opts->group_size % 16 != 0)
        return cli_wrong(&program, &command, "--group-size needs a multiple of 16");
    if (opts->group_size > 0 && blocks)
        return cli_wrong(&program, &command, "--group-size is of int8 and int4; %s has blocks of its own", name);
    if (!blocks && (opts->embedding >= 0 || opts->head >= 0 || opts->tensor_types != NULL))
        return cli_wrong(&program, &command,
                         "--token-embedding-type, --output-tensor-type and --tensor-type are of GGUF's types, not of "
                         "%s (see --keep)",
                         name);
    if (!types_valid(opts->tensor_types, &wrong))
        return cli_wrong(&program, &command, "--tensor-type needs PATTERN=TYPE, of keep, " TYPES_OF_GGUF ", not %.*s",
                         (int)strcspn(wrong, ","), wrong);
    opts->embedding = opts->embedding < 0 ? TYPE_Q8_0 : opts->embedding;
    opts->head = opts->head < 0 ? TYPE_Q8_0 : opts->head;
    opts->input = words[0];
    return -1;
}
