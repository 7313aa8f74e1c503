/* fovea-tune --kind, and --each-host. The latter is a program of libfovea_mpi (integrations/mpi/each_host.c), so that
 * this one needs no MPI. It runs this program on each host: for its kind (where the file will be written, with
 * its name: whether it can be), then on one of each kind to tune. */
#include "commands.h"
#include "machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tune_kind(const tune_options *options) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return TUNE_FAILED;
    fv_tuning_section own;
    const bool good = !options->output || tune_may_write(options->output, false);
    fv_tuning_section_of(&ctx->cpu, &own);
    if (good)
        printf("%s threads=%d\n", own.text, ctx->threads.count);
    fovea_context_destroy(ctx);
    return good ? TUNE_GOOD : TUNE_FAILED;
}

void tune_program_path(const char *program, const char *name, char *path, size_t size) {
    const char *end = strrchr(program, '/');
    snprintf(path, size, "%.*s%s", end ? (int)(end + 1 - program) : 0, program, name);
}

int tune_each_host(int argc, char **argv, const tune_options *options) {
    static const char name[] = "fovea-tune-each-host";
    char **words = calloc((size_t)argc + 3, sizeof *words), path[4096];
    if (!words) {
        fputs("fovea-tune: out of memory\n", stderr);
        return TUNE_FAILED;
    }
    int count = 0;
    words[count++] = (char *)(uintptr_t)name;
    words[count++] = (char *)(uintptr_t)options->output;
    words[count++] = argv[0];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--each-host") != 0)
            words[count++] = argv[i];
    tune_program_path(argv[0], name, path, sizeof path);
    execvp(path, words);
    execvp(name, words);
    fprintf(stderr,
            "fovea-tune: --each-host needs %s in the folder of fovea-tune or in PATH; it is built with libfovea_mpi, "
            "where MPI is installed\n",
            name);
    free(words);
    return TUNE_FAILED;
}
