/* Whose threads a context uses, by options and environment, and what fovea_context_facts says of them. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words of a context of these options about its threads; "": there is none, for that status. */
static const char *reason_of(fovea_threads_backend backend, fovea_parallel_for_fn parallel_for, const char *environment,
                             fovea_status want, const char *words) {
    static char text[512];
    char before[32] = "";
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_facts info;
    fovea_context_options_init(&options);
    options.threads_backend = backend;
    options.parallel_for = parallel_for;
    if (getenv("FOVEA_THREADS_BACKEND"))
        snprintf(before, sizeof before, "%s", getenv("FOVEA_THREADS_BACKEND"));
    setenv("FOVEA_THREADS_BACKEND", environment, 1);
    const fovea_status status = fovea_context_create(&options, &ctx);
    setenv("FOVEA_THREADS_BACKEND", before, 1);
    text[0] = '\0';
    check_status("a backend", status, want, words);
    fovea_context_facts_init(&info);
    if (status == FOVEA_OK && fovea_context_info(ctx, &info) == FOVEA_OK)
        snprintf(text, sizeof text, "%s", strchr(info.reason, ';'));
    fovea_context_destroy(ctx);
    return text;
}

static void some_pool(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

static void test_choice(void) {
    const bool openmp = fv_threads_of_openmp().built;
    const char *pool = "of the context's pool,", *team = openmp ? "of OpenMP," : pool, *own = "in the caller's pool,";
    const fovea_status no_openmp = openmp ? FOVEA_OK : FOVEA_ERROR_UNSUPPORTED;
    const fovea_status no_word = openmp ? FOVEA_OK : FOVEA_ERROR_ENVIRONMENT;
    const struct {
        fovea_threads_backend backend;
        const char *environment;
        fovea_parallel_for_fn parallel_for;
        fovea_status status;
        const char *words; /* of the reason, or of the error's sentence */
    } cases[] = {
        {FOVEA_THREADS_DEFAULT, "", NULL, FOVEA_OK, team},
        {FOVEA_THREADS_POOL, "", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_OPENMP, "", NULL, no_openmp, openmp ? team : "threads_backend|built without OpenMP"},
        {FOVEA_THREADS_DEFAULT, "pool", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_OPENMP, "pool", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_POOL, "openmp", NULL, no_word, openmp ? team : "FOVEA_THREADS_BACKEND|openmp|build"},
        {FOVEA_THREADS_DEFAULT, "Pool", NULL, FOVEA_ERROR_ENVIRONMENT, "FOVEA_THREADS_BACKEND|Pool|pool"},
        {FOVEA_THREADS_DEFAULT, "pool", some_pool, FOVEA_OK, own},
        {FOVEA_THREADS_POOL, "", some_pool, FOVEA_ERROR_ARGUMENT, "parallel_for|threads_backend"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *reason =
            reason_of(cases[i].backend, cases[i].parallel_for, cases[i].environment, cases[i].status, cases[i].words);
        test_check(cases[i].status != FOVEA_OK || strstr(reason, cases[i].words), "case %zu: no \"%s\" in \"%s\"", i,
                   cases[i].words, reason);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_backend", NULL);
    test_choice();
    return test_end();
}
