/* A layer over a cache (cached_layer.h). */
#include "cached_layer.h"
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

cached_layer *cached_layer_make(const fovea_context *ctx) {
    cached_layer *l = must_alloc(1, sizeof *l);
    rng r = rng_stream(test_seed(), "layer");
    *l = (cached_layer){.ctx = ctx, .dtype = FOVEA_DTYPE_F32, .kept = FOVEA_DTYPE_F32, .norms = true, .feature = -1};
    rng_fill_normal(&r, l->q, HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->k, KV_HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->v, KV_HEADS * DIM * FEATURES);
    rng_fill_normal(&r, l->o, OUT * HEADS * DIM);
    memcpy(l->all, l->q, sizeof l->q);
    memcpy(l->all + HEADS * DIM * FEATURES, l->k, sizeof l->k);
    memcpy(l->all + (HEADS + KV_HEADS) * DIM * FEATURES, l->v, sizeof l->v);
    rng_fill_normal(&r, l->q_norm, DIM);
    rng_fill_normal(&r, l->k_norm, DIM);
    rng_fill_normal(&r, l->o_bias, OUT);
    rng_fill_normal(&r, l->x, TOKENS * FEATURES);
    rng_fill_normal(&r, l->sinks, HEADS);
    rng_fill_normal(&r, l->bias, HEADS * TOKENS);
    rng_fill_normal(&r, l->table, HEADS * ENTRIES);
    for (int i = 0; i < TOKENS; i++)
        l->kept_keys[i] = i % 5 != 3;
    return l;
}

void *cached_layer_typed(const float *x, int64_t n, fovea_dtype dtype) {
    void *y = must_alloc(n, sizeof(float));
    require(fovea_convert(n, x, FOVEA_DTYPE_F32, y, dtype), "convert");
    return y;
}

fovea_attention_desc cached_layer_attention(const cached_layer *l, int64_t batch, int64_t q_len, bool cached) {
    fovea_attention_desc a;
    fovea_attention_desc_init(&a);
    a.dtype = a.out_dtype = l->dtype;
    a.k_dtype = a.v_dtype = l->kept;
    a.batch = batch;
    a.q_heads = HEADS;
    a.kv_heads = KV_HEADS;
    a.q_len = q_len;
    a.kv_len = TOKENS;
    a.head_dim = a.value_dim = DIM;
    a.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    a.page_keys = cached ? FOVEA_KV_PAGE_KEYS : 0;
    attention_case with = {.desc = a};
    if (l->feature >= 0)
        case_feature(&with, l->feature);
    if (with.say_mask)
        with.desc.mask = FOVEA_MASK_KEY_PADDING; /* the one that needs no rows */
    return with.desc;
}

void cached_layer_feature(const cached_layer *l, const fovea_attention_desc *a, fovea_attention_args *args) {
    cached_layer *x = (cached_layer *)(uintptr_t)l; /* tensors are of outputs, too */
    if (a->has_sinks)
        args->sinks = x->sinks;
    if (a->has_bias)
        args->bias = fovea_tensor_bhtd(x->bias, FOVEA_DTYPE_F32, 1, HEADS, 1, TOKENS);
    if (a->relative)
        args->relative = fovea_tensor_bhtd(x->table, FOVEA_DTYPE_F32, 1, HEADS, 1,
                                           a->relative == FOVEA_RELATIVE_ALIBI ? 1
                                           : a->relative == FOVEA_RELATIVE_T5  ? 32
                                                                               : ENTRIES);
    if (a->mask)
        args->mask = fovea_tensor_bhtd(x->kept_keys, FOVEA_DTYPE_BOOL, 1, 1, 1, TOKENS);
}

fovea_status cached_layer_create(const cached_layer *l, const fovea_attention_desc *a, fovea_mha_desc *d,
                                 fovea_mha **mha) {
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    d->attention = a;
    d->q_features = FEATURES;
    d->out_features = OUT;
    d->biases = 1;
    w.q = fovea_matrix_out_in(l->q, FOVEA_DTYPE_F32, HEADS * DIM, FEATURES);
    w.k = fovea_matrix_out_in(l->k, FOVEA_DTYPE_F32, KV_HEADS * DIM, FEATURES);
    w.v = fovea_matrix_out_in(l->v, FOVEA_DTYPE_F32, KV_HEADS * DIM, FEATURES);
    w.o = fovea_matrix_out_in(l->o, FOVEA_DTYPE_F32, OUT, HEADS * DIM);
    if (l->fused) {
        d->form = FOVEA_MHA_FUSED;
        w.fused = fovea_matrix_out_in(l->all, FOVEA_DTYPE_F32, (HEADS + 2 * KV_HEADS) * DIM, FEATURES);
        w.q.data = w.k.data = w.v.data = NULL;
    }
    w.o_bias = l->o_bias;
    w.q_norm = l->norms ? l->q_norm : NULL;
    w.k_norm = l->norms ? l->k_norm : NULL;
    return fovea_mha_create(l->ctx, d, &w, mha);
}

/* y = x w^T + bias, [groups of channels] as heads. */
static void *map(const cached_layer *l, const void *x, const float *w, int64_t in, int64_t heads, int64_t channels,
                 const float *bias) {
    fovea_linear_part part = {.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, heads * channels, in), .bias = bias};
    fovea_linear_desc d;
    fovea_linear_args args;
    fovea_linear *linear;
    part.bias_dtype = FOVEA_DTYPE_F32;
    fovea_linear_desc_init(&d);
    d.dtype = l->dtype;
    d.in_features = in;
    d.parts = &part;
    require(fovea_linear_create(l->ctx, &d, &linear), "pack");
    void *y = must_alloc(TOKENS * heads * channels, sizeof(float));
    fovea_tensor out = fovea_tensor_bhtd(y, l->dtype, 1, heads, TOKENS, channels);
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd((void *)(uintptr_t)x, l->dtype, 1, 1, TOKENS, in);
    args.y = &out;
    require(fovea_linear_apply(l->ctx, linear, &args, NULL, 0), "map");
    fovea_linear_destroy(linear);
    return y;
}

static void normalize(const cached_layer *l, void *x, int64_t heads, const float *weight) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = args.y = fovea_tensor_bhtd(x, l->dtype, 1, heads, TOKENS, DIM);
    args.weight = weight;
    args.eps = 1e-6;
    require(fovea_norm_rms(l->ctx, &args, NULL, 0), "norm");
}

fovea_kv_cache *cached_layer_cache(const cached_layer *l) {
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.layers = 2;
    d.kv_heads = KV_HEADS;
    d.head_dim = d.value_dim = DIM;
    d.k_dtype = d.v_dtype = l->kept;
    d.max_pages = 16;
    d.rope = l->rope;
    require(fovea_kv_cache_create(l->ctx, &d, &cache), "cache");
    return cache;
}

/* Attention of all tokens at once over a cache, as int8 keys and values have no tensors; q is rotated, k is not. */
static void attend_cached(const cached_layer *l, const fovea_tensor *q, const fovea_tensor *k, const fovea_tensor *v,
                          const fovea_tensor *out) {
    const fovea_attention_desc a = cached_layer_attention(l, 1, TOKENS, true);
    fovea_kv_cache *cache = cached_layer_cache(l);
    fovea_kv_append_args append;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    int64_t sequence;
    require(fovea_kv_cache_add(cache, &sequence), "add");
    fovea_kv_append_args_init(&append);
    append.count = 1;
    append.sequences = &sequence;
    append.k = *k;
    append.v = *v;
    require(fovea_kv_cache_append(cache, &append), "append");
    require(fovea_attention_plan_create(l->ctx, &a, &plan), "plan");
    fovea_attention_args_init(&args);
    args.q = *q;
    args.out = *out;
    args.cache = cache;
    args.cache_sequences = &sequence;
    cached_layer_feature(l, &a, &args);
    require(fovea_attention_execute(plan, &args, NULL, 0), "attention");
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(cache);
}

static void attend_contiguous(const cached_layer *l, const fovea_tensor *q, const fovea_tensor *k,
                              const fovea_tensor *v, const int64_t *positions, const fovea_tensor *out) {
    const int64_t n = KV_HEADS * TOKENS * DIM;
    const fovea_attention_desc a = cached_layer_attention(l, 1, TOKENS, false);
    fovea_attention_args args;
    void *kept_k = must_alloc(n, sizeof(float)), *kept_v = must_alloc(n, sizeof(float));
    fovea_attention_args_init(&args);
    args.q = *q;
    args.k = fovea_tensor_bhtd(kept_k, l->kept, 1, KV_HEADS, TOKENS, DIM);
    args.v = fovea_tensor_bhtd(kept_v, l->kept, 1, KV_HEADS, TOKENS, DIM);
    args.out = *out;
    cached_layer_feature(l, &a, &args);
    if (l->rope)
        require(fovea_rope_apply(l->ctx, l->rope, k, positions, &args.k), "rope");
    else
        require(fovea_convert(n, k->data, l->dtype, kept_k, l->kept), "convert");
    require(fovea_convert(n, v->data, l->dtype, kept_v, l->kept), "convert");
    require(attention_once(l->ctx, &a, &args), "attention");
    free(kept_k);
    free(kept_v);
}

void *cached_layer_want(const cached_layer *l) {
    int64_t positions[TOKENS];
    for (int64_t i = 0; i < TOKENS; i++)
        positions[i] = i;
    void *x = cached_layer_typed(l->x, TOKENS * FEATURES, l->dtype);
    void *q = map(l, x, l->q, FEATURES, HEADS, DIM, NULL), *k = map(l, x, l->k, FEATURES, KV_HEADS, DIM, NULL),
         *v = map(l, x, l->v, FEATURES, KV_HEADS, DIM, NULL);
    if (l->norms) {
        normalize(l, q, HEADS, l->q_norm);
        normalize(l, k, KV_HEADS, l->k_norm);
    }
    void *heads = must_alloc(TOKENS * HEADS * DIM, sizeof(float));
    const fovea_tensor qt = fovea_tensor_bhtd(q, l->dtype, 1, HEADS, TOKENS, DIM),
                       kt = fovea_tensor_bhtd(k, l->dtype, 1, KV_HEADS, TOKENS, DIM),
                       vt = fovea_tensor_bhtd(v, l->dtype, 1, KV_HEADS, TOKENS, DIM),
                       ht = fovea_tensor_bthd(heads, l->dtype, 1, TOKENS, HEADS, DIM);
    if (l->rope)
        require(fovea_rope_apply(l->ctx, l->rope, &qt, positions, &qt), "rope");
    if (fv_dtype_paged(l->kept))
        attend_cached(l, &qt, &kt, &vt, &ht);
    else
        attend_contiguous(l, &qt, &kt, &vt, positions, &ht);
    void *out = map(l, heads, l->o, HEADS * DIM, 1, OUT, l->o_bias);
    void *all[] = {x, q, k, v, heads};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return out;
}
