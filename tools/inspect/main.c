/* fovea-inspect: what attention costs in each form, how alike its matrices are in a model, and what it looks at in a
 * sentence. Commands and options: options.c; docs/one-matrix-or-two.md and docs/why-not-one-w.md use it. */
#include "inspect.h"

#include <string.h>

int inspect_failed(complaint said) {
    fprintf(stderr, "fovea-inspect: %s\n", said.text);
    return INSPECT_FAILED;
}

fovea_context *inspect_context(const inspect_options *options, int *threads, complaint to) {
    fovea_context_options wanted;
    fovea_context *context;
    fovea_context_facts info;
    fovea_context_options_init(&wanted);
    fovea_context_facts_init(&info);
    wanted.threads = (int)options->threads;
    wanted.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&wanted, &context) != FOVEA_OK || fovea_context_info(context, &info) != FOVEA_OK) {
        complain(to, "context", "%s", fovea_error_detail());
        fovea_context_destroy(context);
        return NULL;
    }
    *threads = info.threads;
    return context;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const inspect_options *options);
    } commands[] = {{"cost", inspect_cost}, {"similarity", inspect_similarity}, {"attention", inspect_attention}};
    inspect_options options;
    int status = inspect_options_read(argc, argv, &options);
    for (size_t i = 0; status < 0 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, options.command) == 0)
            status = commands[i].run(&options);
    return status;
}
