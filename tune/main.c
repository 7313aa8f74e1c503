/* fovea-tune: the best kernels and blocks for this machine, proved. What it does is in tune.h and docs/tuning.md. */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tune_stopped;

static void stop(int number) {
    (void)number;
    if (tune_stopped)
        _exit(130); /* the second time at once */
    tune_stopped = 1;
}

fovea_context *tune_context(const tune_options *options) {
    fovea_context_options wanted;
    fovea_context *ctx;
    fovea_context_options_init(&wanted);
    wanted.isa = options->isa;
    wanted.threads = options->threads;
    wanted.tuning_file = "";
    if (fovea_context_create(&wanted, &ctx) != FOVEA_OK) {
        fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
        return NULL;
    }
    if (options->isa != FOVEA_ISA_BEST && (fovea_isa)ctx->isa != options->isa)
        fprintf(stderr, "fovea-tune: tier %s is not to be had here: %s\n", fovea_isa_name(options->isa), ctx->reason);
    else if (options->threads > 0 && ctx->threads != options->threads)
        fprintf(stderr, "fovea-tune: %d threads are not to be had here: %s\n", options->threads, ctx->reason);
    else
        return ctx;
    fovea_context_destroy(ctx);
    return NULL;
}

bool tune_default_file(char *path, size_t size) {
    const char *environment = getenv("FOVEA_TUNING_FILE");
    path[0] = '\0';
    if (environment && *environment)
        snprintf(path, size, "%s", environment);
    for (int i = 0; !path[0] && fv_tuning_place(i, path, size); i++)
        ;
    return path[0] != '\0';
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const tune_options *options);
    } commands[] = {{"run", tune_run},     {"show", tune_show},       {"check", tune_check},
                    {"merge", tune_merge}, {"explain", tune_explain}, {"report", tune_report}};
    tune_options options;
    int status = tune_options_read(argc, argv, &options);
    if (status >= 0)
        return status;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, options.command) == 0)
            status = commands[i].run(&options);
    tune_problem_end();
    if (fflush(stdout) != 0) {
        perror("fovea-tune");
        status = TUNE_FAILED;
    }
    return status;
}
