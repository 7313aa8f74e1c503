/* Shared by the programs of this folder: numbers in place of trained ones, short names for the shapes that they use,
 * and an end at the first error. */
#ifndef FOVEA_EXAMPLES_PAPER_H
#define FOVEA_EXAMPLES_PAPER_H

#include <fovea/fovea.h>

#include <stdio.h>
#include <stdlib.h>

static inline void must(fovea_status status) {
    if (status == FOVEA_OK)
        return;
    fprintf(stderr, "%s (%s)\n", fovea_error_detail(), fovea_status_name(status));
    exit(EXIT_FAILURE);
}

/* Numbers from -most to most, the same on every machine. */
static inline void fill(float *x, int count, float most, uint32_t seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) * 0x1p-23f - 1.0f) * most;
    }
}

/* [in][out], as the paper writes x W. */
static inline fovea_matrix matrix(const float *w, int in, int out) {
    return fovea_matrix_in_out(w, FOVEA_DTYPE_F32, in, out);
}

/* [token][channel] */
static inline fovea_tensor rows(float *x, int tokens, int channels) {
    return fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, tokens, channels);
}

/* [head][token][channel] */
static inline fovea_tensor heads(float *x, int count, int tokens, int channels) {
    return fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, count, tokens, channels);
}

/* Everything that a layer is given. Matrices and inputs that it does not need stay absent. */
typedef struct layer {
    fovea_attention_desc attention;
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_attention_args args;
} layer;

/* One sequence of q_len queries and kv_len keys; heads of d_k channels for queries and keys, d_v for values. */
static inline void layer_init(layer *l, int head_count, int q_len, int kv_len, int d_k, int d_v) {
    fovea_attention_desc_init(&l->attention);
    fovea_mha_desc_init(&l->desc);
    fovea_mha_weights_init(&l->w);
    fovea_attention_args_init(&l->args);
    l->desc.attention = &l->attention;
    l->attention.q_heads = l->attention.kv_heads = head_count;
    l->attention.q_len = q_len;
    l->attention.kv_len = kv_len;
    l->attention.head_dim = d_k;
    l->attention.value_dim = d_v;
}

/* Makes a layer, runs it once and frees it. (A real program keeps the layer: its weights are packed.) */
static inline fovea_status layer_run(const fovea_context *context, const layer *l) {
    fovea_mha *made;
    fovea_status status = fovea_mha_create(context, &l->desc, &l->w, &made);
    if (status == FOVEA_OK)
        status = fovea_mha_execute(made, &l->args, NULL, 0);
    fovea_mha_destroy(made);
    return status;
}

/* How many numbers the layer keeps. */
static inline int layer_numbers(const layer *l) {
    fovea_mha_costs costs;
    fovea_mha_costs_init(&costs);
    must(fovea_mha_desc_costs(&l->desc, &costs));
    return (int)costs.parameters;
}

#endif
