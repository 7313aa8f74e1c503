/* Plans by description (plan_cache.h). A table of sets: a description's hash gives its set, in which plans are in order
 * of their last use; the oldest is evicted. The GIL is the lock, so there is none that a fork could leave closed. */
#include "plan_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 64, WAYS = 4 };

static py_plan *table[SETS][WAYS];

py_plan *py_plan_make(py_context *context, const fovea_attention_desc *desc) {
    py_plan *plan = malloc(sizeof *plan);
    if (!plan) {
        PyErr_NoMemory();
        return NULL;
    }
    const fovea_status status = fovea_attention_plan_create(context->library, desc, &plan->library);
    if (py_checked(status) < 0) {
        free(plan);
        return NULL;
    }
    plan->desc = *desc;
    plan->context = py_context_keep(context);
    plan->workspace_size = fovea_attention_plan_workspace_size(plan->library);
    plan->references = 1;
    return plan;
}

void py_plan_drop(py_plan *plan) {
    if (plan && --plan->references == 0) {
        fovea_attention_plan_destroy(plan->library);
        py_context_drop(plan->context);
        free(plan);
    }
}

static unsigned set_of(const fovea_attention_desc *desc) {
    uint64_t words[sizeof *desc / 8], hash = 0;
    memcpy(words, desc, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (unsigned)(hash >> 58) % SETS;
}

py_plan *py_plan_find(py_context *context, const fovea_attention_desc *desc) {
    py_plan **set = table[set_of(desc)];
    int at = 0;
    while (at < WAYS && set[at] && (set[at]->context != context || memcmp(&set[at]->desc, desc, sizeof *desc) != 0))
        at++;
    py_plan *found = at < WAYS ? set[at] : NULL;
    if (!found) {
        found = py_plan_make(context, desc);
        if (!found)
            return NULL;
        if (at == WAYS)
            py_plan_drop(set[--at]);
    }
    memmove(&set[1], &set[0], (size_t)at * sizeof set[0]);
    set[0] = found;
    found->references++;
    return found;
}

/* ---------------------------------------------------------------------------------------------------- workspaces -- */

enum { KEPT_BYTES = 32 << 20 }; /* of a thread at most */

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local void *kept;
static _Thread_local size_t kept_size;

static void make_key(void) { (void)pthread_key_create(&key, free); }

void *py_workspace(size_t size) {
    if (size <= kept_size && kept)
        return kept;
    if (size > KEPT_BYTES)
        return malloc(size);
    pthread_once(&once, make_key);
    void *memory = malloc(size + 1);
    if (!memory)
        return NULL;
    free(kept);
    kept = memory;
    kept_size = size;
    (void)pthread_setspecific(key, memory); /* freed with the thread */
    return memory;
}

void py_workspace_done(void *workspace, size_t size) {
    if (size > KEPT_BYTES)
        free(workspace);
}
