/* The contexts of fovea.config() (context.h). */
#include "context.h"
#include "pool.h"

#include <stdlib.h>

static py_context *now;
static py_context *alive;                     /* all of them, linked by next */
static fovea_isa wanted_isa = FOVEA_ISA_BEST; /* where now is NULL */
static int wanted_threads;

static py_context *make(fovea_isa isa, int threads) {
    py_context *context = malloc(sizeof *context);
    if (!context) {
        PyErr_NoMemory();
        return NULL;
    }
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = isa;
    options.threads = threads;
    options.parallel_for = py_pool_parallel_for;
    const fovea_status status = fovea_context_create(&options, &context->library);
    if (py_checked(status) < 0) {
        free(context);
        return NULL;
    }
    context->isa = isa;
    context->threads = threads;
    context->references = 1;
    context->next = alive;
    alive = context;
    return context;
}

py_context *py_context_now(void) {
    if (!now)
        now = make(wanted_isa, wanted_threads);
    return now;
}

py_context *py_context_keep(py_context *context) {
    context->references++;
    return context;
}

void py_context_drop(py_context *context) {
    if (context && --context->references == 0) {
        py_context **at = &alive;
        while (*at != context)
            at = &(*at)->next;
        *at = context->next;
        fovea_context_destroy(context->library);
        free(context);
    }
}

void py_context_renew(void) {
    if (now) {
        wanted_isa = now->isa;
        wanted_threads = now->threads;
    }
    for (py_context *context = alive; context; context = context->next)
        context->threads = -1; /* what is left of these stays, and is found by none */
    py_context_drop(now);
    now = NULL;
}

int py_context_set(fovea_isa isa, int threads) {
    if (now && now->isa == isa && now->threads == threads)
        return 0;
    py_context *next = alive;
    while (next && (next->isa != isa || next->threads != threads))
        next = next->next;
    next = next ? py_context_keep(next) : make(isa, threads);
    if (!next)
        return -1;
    py_context_drop(now);
    now = next;
    return 0;
}
