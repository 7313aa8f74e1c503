/* Layers for tests: factored weights and inputs of some sizes, the layer in float64, and running any form of it.
 *
 * Inputs are rows, [batch, 1, tokens, features]; w and desc describe the factored form and may be copied and changed.
 * exact and bias_exact, which begin as copies, are what layer_reference() computes with. */
#ifndef FOVEA_TESTS_MHA_LAYER_H
#define FOVEA_TESTS_MHA_LAYER_H

#include "fovea/fovea.h"
#include "test.h"

typedef struct layer {
    fovea_mha_desc desc;
    fovea_attention_desc attention; /* that desc and its copies point to */
    fovea_mha_weights w;
    int64_t heads, kv_heads, d_k, d_v, features[3], out;
    float *x[3], *m[4], *bias[4]; /* q, k, v, o */
    double *exact[4];
    double *bias_exact[3];
    int64_t *kv_lens;
} layer;

typedef struct layer_sizes {
    int64_t batch, q_len, kv_len, heads, kv_heads, d_k, d_v, features[3], out;
    fovea_mha_inputs inputs;
    fovea_causal causal;
    bool biases, lens;
} layer_sizes;

/* Sizes that tests of the whole layer go through. */
enum { LAYER_SIZES = 9 };
extern const layer_sizes layer_sizes_tested[LAYER_SIZES];

layer *layer_make(const layer_sizes *s, rng *r);
void layer_free(layer *l);

/* Sizes of matrix i, 0 to 3: q, k, v, o. */
int64_t layer_columns(const layer *l, int i);
int64_t layer_rows(const layer *l, int i);

/* Which input serves role i, and how many tokens the role has. */
int layer_input(const layer *l, int i);
int64_t layer_tokens(const layer *l, int i);

/* The layer in float64, [batch][q_len][out]; this and all results below are freed by the caller. */
double *layer_reference(const layer *l);

int64_t layer_floats(const layer *l); /* of the result */

/* Arguments with the layer's inputs. */
fovea_attention_args layer_args(const layer *l, float *out);

/* Makes the layer, runs it in a guarded workspace of exactly its size, destroys it. n floats of result. */
float *layer_run(const fovea_context *ctx, const layer *l, const fovea_mha_desc *desc, const fovea_mha_weights *w,
                 const char *what);
float *layer_run_args(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *w,
                      fovea_attention_args *args, int64_t n, const char *what);

/* n normal numbers times scale. */
float *normals(rng *r, int64_t n, double scale);

/* x in float64, or zeros where x is NULL. */
double *doubles(const float *x, int64_t n);

#endif
