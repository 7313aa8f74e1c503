/* fovea-quantize: the weights of a model as integers of 8 or 4 bits, in a GGUF or safetensors file (docs/quantize.md).
 *
 * arrays.c opens the input and decides what becomes of each tensor; sizes are known then, so that a writer makes the
 * whole header first, and convert.c reads, quantizes and writes one tensor after the other, a piece at a time.
 * whole_file.h puts the file in its place when it is whole. */
#include "cli.h"
#include "convert.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024, HEADERS = 1 << 20 };

static int save(const options *opts, const arrays *a, whole_file *file, whole_file *config, complaint to) {
    const int64_t bytes = convert_bytes(a) + HEADERS;
    if (arrays_include(a, opts->output))
        return complain(to, opts->output, "is a file of the input: write to another");
    if (type_in_gguf((tensor_type)opts->type))
        return whole_file_begin(file, opts->output, bytes, opts->force, to) == 0 &&
                       write_gguf(opts, a, file, to) == 0 && whole_file_finish(file, to) == 0
                   ? whole_file_rename(file, to)
                   : -1;
    char path[WHOLE_FILE_PATH];
    const char *slash = strrchr(opts->output, '/');
    const int folder = slash != NULL ? (int)(slash - opts->output) + 1 : 0;
    if (snprintf(path, sizeof path, "%.*sconfig.json", folder, opts->output) >= (int)sizeof path)
        return complain(to, "--output", "has too long a name");
    if (strcmp(path, opts->output) == 0)
        return complain(to, path, "is the configuration, which is written, too: name the weights otherwise");
    if (arrays_include(a, path))
        return complain(to, path, "is a file of the input: write to another folder");
    char *text = write_config(opts, a, to);
    int status = text != NULL && whole_file_begin(file, opts->output, bytes, opts->force, to) == 0 &&
                         whole_file_begin(config, path, (int64_t)strlen(text), opts->force, to) == 0 &&
                         whole_file_write(config, text, (int64_t)strlen(text), to) == 0 &&
                         whole_file_finish(config, to) == 0
                     ? 0
                     : -1;
    free(text);
    if (status == 0 && write_safetensors(opts, a, file, to) == 0 && whole_file_finish(file, to) == 0 &&
        whole_file_rename(file, to) == 0)
        return whole_file_rename(config, to);
    return -1;
}

int main(int argc, char **argv) {
    static whole_file file, config;
    char sentence[SENTENCE] = "";
    const complaint to = {sentence, sizeof sentence};
    options opts;
    arrays a;
    const int wrong = options_read(argc, argv, &opts);
    if (wrong >= 0)
        return wrong;
    const int status = arrays_open(&opts, &a, to) == 0 ? save(&opts, &a, &file, &config, to) : -1;
    whole_file_drop(&file);
    whole_file_drop(&config);
    arrays_close(&a);
    if (status == 0)
        cli_result_is_written();
    else {
        fflush(stdout);
        fprintf(stderr, "fovea-quantize: %s\n", sentence);
    }
    return status != 0;
}
