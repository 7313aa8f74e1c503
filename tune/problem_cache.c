/* Keys and values of attentions of few rows, in pages of a cache as programs that decode have them: in 2 MiB
 * pages of the system where it gives them, which the arena is not. */
#include "core/core.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>

static fovea_status fill(tune_problem *problem) {
    const fovea_attention_desc *d = &problem->shape.attention;
    fovea_status status = FOVEA_OK;
    for (int64_t b = 0; b < d->batch && status == FOVEA_OK; b++)
        status = fovea_kv_cache_add(problem->cache, &problem->sequences[b]);
    for (int i = 0; i < problem->sets && status == FOVEA_OK; i++) {
        fovea_attention_args *args = &problem->attention[i];
        fovea_kv_append_args append;
        fovea_kv_append_args_init(&append);
        append.layer = args->cache_layer = i;
        append.count = d->batch;
        append.sequences = args->cache_sequences = problem->sequences;
        append.k = args->k;
        append.v = args->v;
        status = fovea_kv_cache_append(problem->cache, &append);
        args->k = args->v = (fovea_tensor){.data = NULL};
        args->cache = problem->cache;
    }
    return status;
}

bool tune_problem_cache(tune_problem *problem, char error[256]) {
    fovea_attention_desc *d = &problem->shape.attention;
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    desc.layers = problem->sets;
    desc.kv_heads = d->kv_heads;
    desc.head_dim = d->head_dim;
    desc.value_dim = d->value_dim;
    desc.k_dtype = d->k_dtype;
    desc.v_dtype = d->v_dtype;
    desc.max_pages = problem->sets * d->batch * fv_ceil_div(d->kv_len, FOVEA_KV_PAGE_KEYS);
    d->page_keys = FOVEA_KV_PAGE_KEYS;
    problem->sequences = malloc((size_t)d->batch * sizeof *problem->sequences);
    if (problem->sequences && fovea_kv_cache_create(problem->ctx, &desc, &problem->cache) == FOVEA_OK &&
        fill(problem) == FOVEA_OK)
        return true;
    snprintf(error, 256, "%.250s", problem->sequences ? fovea_error_detail() : "no memory for the operands");
    return false;
}
