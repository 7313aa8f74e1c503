/* The one call: the default context, and the plans and workspaces of the last shapes (fovea.h: fovea_sdpa_f32).
 *
 * A call takes its shape's entry out of the cache, uses it alone, and puts it back in front; so concurrent calls of one
 * shape make one entry each, and the oldest entries fall out. A fork waits until no thread is at the cache, so that the
 * child's is whole and free. The cache is this library's only global state, but for what
 * threads/fork.c notes. */
#include "attention/plan/plan.h"
#include "core/core.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CACHED = 16 };

typedef struct entry {
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, value_dim;
    fovea_causal causal;
    fovea_attention_plan *plan;
    void *workspace;
} entry;

static fv_mutex lock = FV_MUTEX_READY;
static entry cache[CACHED]; /* newest first; plan NULL: the rest is empty */

static fv_fork_lock forks;
__attribute__((constructor)) static void watch_forks(void) { fv_fork_enlist(&forks, &lock); }

static bool same_shape(const entry *a, const entry *b) {
    return a->batch == b->batch && a->q_heads == b->q_heads && a->kv_heads == b->kv_heads && a->q_len == b->q_len &&
           a->kv_len == b->kv_len && a->head_dim == b->head_dim && a->value_dim == b->value_dim &&
           a->causal == b->causal;
}

static void destroy(entry *e) {
    fovea_attention_plan_destroy(e->plan);
    free(e->workspace);
    e->plan = NULL;
    e->workspace = NULL;
}

/* Moves the entry of found's shape out of the cache into *found, if there is one. */
static fovea_status take(entry *found, const fovea_context **ctx) {
    const fovea_status status = fv_context_default(ctx);
    fv_mutex_lock(&lock);
    for (int i = 0; status == FOVEA_OK && i < CACHED && cache[i].plan; i++)
        if (same_shape(&cache[i], found)) {
            *found = cache[i];
            memmove(&cache[i], &cache[i + 1], (size_t)(CACHED - 1 - i) * sizeof cache[0]);
            memset(&cache[CACHED - 1], 0, sizeof cache[0]);
            break;
        }
    fv_mutex_unlock(&lock);
    return status;
}

static void put_back(const entry *used) {
    fv_mutex_lock(&lock);
    entry oldest = cache[CACHED - 1];
    memmove(&cache[1], &cache[0], (CACHED - 1) * sizeof cache[0]);
    cache[0] = *used;
    fv_mutex_unlock(&lock);
    destroy(&oldest);
}

/* The plan and workspace of an entry that was not in the cache. */
static fovea_status make(entry *e, const fovea_context *ctx) {
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.batch = e->batch;
    desc.q_heads = e->q_heads;
    desc.kv_heads = e->kv_heads;
    desc.q_len = e->q_len;
    desc.kv_len = e->kv_len;
    desc.head_dim = e->head_dim;
    desc.value_dim = e->value_dim;
    desc.causal = e->causal;
    const fovea_status status = fovea_attention_plan_create(ctx, &desc, &e->plan);
    if (status != FOVEA_OK)
        return status;
    const size_t size = fovea_attention_plan_workspace_size(e->plan);
    e->workspace = malloc(size);
    if (!e->workspace) {
        destroy(e);
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", size);
    }
    return FOVEA_OK;
}

/* Inputs are read only: a tensor has no const, as it also names outputs. */
static void *input(const float *data) { return (void *)(uintptr_t)data; }

fovea_status fovea_sdpa_f32(const float *q, const float *k, const float *v, float *out, int64_t batch, int64_t q_heads,
                            int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t head_dim, int64_t value_dim,
                            fovea_causal causal) {
    if (causal == FOVEA_CAUSAL_OFFSET)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "FOVEA_CAUSAL_OFFSET needs offsets: use fovea_attention_execute");
    entry e = {batch, q_heads, kv_heads, q_len, kv_len, head_dim, value_dim, causal, NULL, NULL};
    const fovea_context *ctx;
    fovea_status status = take(&e, &ctx);
    if (status == FOVEA_OK && !e.plan)
        status = make(&e, ctx);
    if (status != FOVEA_OK)
        return status;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(input(q), FOVEA_DTYPE_F32, batch, q_heads, q_len, head_dim);
    args.k = fovea_tensor_bhtd(input(k), FOVEA_DTYPE_F32, batch, kv_heads, kv_len, head_dim);
    args.v = fovea_tensor_bhtd(input(v), FOVEA_DTYPE_F32, batch, kv_heads, kv_len, value_dim);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, batch, q_heads, q_len, value_dim);
    status = fovea_attention_execute(e.plan, &args, e.workspace, fovea_attention_plan_workspace_size(e.plan));
    put_back(&e);
    return status;
}
