/* Random layers of bfloat16 and float16, alone and mixed, in every form: what the layer is given, and the matrices of
 * its steps.
 */
#ifndef FOVEA_TESTS_HALF_LAYER_H
#define FOVEA_TESTS_HALF_LAYER_H

#include "fovea/fovea.h"
#include "half_pair.h"

#include <stdbool.h>

enum { HALF_ROLES = 3, HALF_MATRICES = 4, HALF_MOST_HEADS = 4 };

/* A matrix and a bias, of zeros where it is absent. */
typedef struct half_dense {
    int64_t in, out;
    half_pair w, bias;
    bool biased;
} half_dense;

/* Roles are 0, 1, 2: queries, keys, values; matrices these and W^O. */
typedef struct half_layer {
    fovea_attention_desc a;
    fovea_mha_desc d;
    int64_t features[HALF_ROLES];
    fovea_mha_order order;
    bool given, packed, q_lens, kv_lens; /* given: W_i of merged */
    fovea_dtype x_type[HALF_ROLES], w_type[HALF_MATRICES], outer_type[HALF_ROLES], bias_type;
    char text[256];
    half_pair x[HALF_ROLES];
    half_dense m[HALF_MATRICES], outer[HALF_ROLES]; /* as given to the layer */
    half_pair merged[HALF_MOST_HEADS], fused, fused_bias;
    half_dense step[HALF_MATRICES]; /* as the steps use them; in 0: that step is none */
    int64_t lens[2][3], ends[2][4];
} half_layer;

/* Draws all. Its numbers are half_pairs. */
void half_layer_make(half_layer *p, rng *r);

/* The input that a role reads, and its sizes. */
int half_layer_input(const half_layer *p, int role);
int64_t half_layer_heads(const half_layer *p, int role);
int64_t half_layer_channels(const half_layer *p, int role);
int64_t half_layer_tokens(const half_layer *p, int role);

#endif
