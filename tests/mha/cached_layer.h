/* A layer over a cache, for tests: any weights, and its steps called one by one. */
#ifndef FOVEA_TESTS_CACHED_LAYER_H
#define FOVEA_TESTS_CACHED_LAYER_H

#include "cache_case.h"
#include "cache_holder.h"

enum { TOKENS = 290, FEATURES = 48, HEADS = 4, KV_HEADS = 2, DIM = 16, OUT = 40, ENTRIES = 101 };

/* One layer: weights of out x in, and norms. */
typedef struct cached_layer {
    const fovea_context *ctx;
    fovea_dtype dtype, kept; /* of inputs and steps; of the cache */
    bool norms, fused;
    int feature; /* of case_feature(), or -1 */
    const fovea_rope *rope;
    float q[HEADS * DIM * FEATURES], k[KV_HEADS * DIM * FEATURES], v[KV_HEADS * DIM * FEATURES], o[OUT * HEADS * DIM];
    float all[(HEADS + 2 * KV_HEADS) * DIM * FEATURES]; /* q, k, v below each other */
    float q_norm[DIM], k_norm[DIM], o_bias[OUT];
    float x[TOKENS * FEATURES];
    float sinks[HEADS], bias[HEADS * TOKENS], table[HEADS * ENTRIES];
    uint8_t kept_keys[TOKENS];
} cached_layer;

/* A layer of float32, with norms, without rope and feature. */
cached_layer *cached_layer_make(const fovea_context *ctx);

/* n numbers as elements of a type. */
void *cached_layer_typed(const float *x, int64_t n, fovea_dtype dtype);

/* The description of its attention, of TOKENS keys at most, and the operands of its feature; columns are positions. */
fovea_attention_desc cached_layer_attention(const cached_layer *l, int64_t batch, int64_t q_len, bool cached);
void cached_layer_feature(const cached_layer *l, const fovea_attention_desc *a, fovea_attention_args *args);

fovea_status cached_layer_create(const cached_layer *l, const fovea_attention_desc *a, fovea_mha_desc *d,
                                 fovea_mha **mha);

/* A cache of two layers. */
fovea_kv_cache *cached_layer_cache(const cached_layer *l);

/* The steps one by one, over all tokens: [TOKENS][OUT]. */
void *cached_layer_want(const cached_layer *l);

#endif
