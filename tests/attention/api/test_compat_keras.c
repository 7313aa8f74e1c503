/* MultiHeadAttention and Attention of Keras, described by fovea_from_keras*(), against what they
 * gave (data/compat_keras.py). */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <stdlib.h>

enum { HEADS = 3, KEY_DIM = 4, VALUE_DIM = 5, BATCH = 2, QUERIES = 5, KEYS = 7, WEIGHTS = QUERIES * KEYS };

static const int64_t features[4] = {6, 8, 7, 9}; /* of query, key, value, output */

/* As bits() in data/compat_keras.py. Freed by the caller. */
static uint8_t *bits(uint32_t seed, int64_t n, int64_t row) {
    float *x = fill(seed, n);
    uint8_t *b = must_alloc(n, 1);
    for (int64_t i = 0; i < n; i++)
        b[i] = (int)(x[i] * 64.0f + 64.0f) % 3 != 0 || i % row == 0;
    free(x);
    return b;
}

typedef struct masks {
    uint8_t *query, *value, *key, *attention;
    fovea_tensor tensor;
} masks;

static masks masks_make(void) {
    masks m = {bits(14, BATCH * QUERIES, QUERIES),
               bits(11, BATCH * KEYS, KEYS),
               bits(12, BATCH * KEYS, KEYS),
               bits(13, BATCH * WEIGHTS, KEYS),
               {0}};
    m.tensor = fovea_tensor_bhtd(m.attention, FOVEA_DTYPE_BOOL, BATCH, 1, QUERIES, KEYS);
    return m;
}

static void masks_free(const masks *m) {
    free(m->query);
    free(m->value);
    free(m->key);
    free(m->attention);
}

static fovea_tensor rows(float *x, int64_t tokens, int64_t channels) {
    return fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, BATCH, 1, tokens, channels);
}

/* query_masked: rows of a query that query_mask leaves out give the output's bias, and no weights; Keras gives weights
 * of 0 there, too. */
static void layer(const fovea_context *ctx, const masks *m, bool masked, bool query_masked, bool causal,
                  const char *want, const char *what) {
    const int64_t kernel_sizes[4] = {features[0] * HEADS * KEY_DIM, features[1] * HEADS * KEY_DIM,
                                     features[2] * HEADS * VALUE_DIM, HEADS * VALUE_DIM * features[3]};
    const int64_t bias_sizes[4] = {HEADS * KEY_DIM, HEADS * KEY_DIM, HEADS * VALUE_DIM, features[3]};
    const float *kernels[4], *biases[4];
    float *owned[11], out[BATCH * QUERIES * 9], weights[BATCH * HEADS * WEIGHTS];
    for (int i = 0; i < 4; i++) {
        kernels[i] = owned[2 * i] = fill((uint32_t)(100 + 10 * i), kernel_sizes[i]);
        biases[i] = owned[2 * i + 1] = fill((uint32_t)(101 + 10 * i), bias_sizes[i]);
    }
    for (int i = 0; i < 3; i++)
        owned[8 + i] = fill((uint32_t)(1 + i), BATCH * (i == 0 ? QUERIES : KEYS) * features[i]);
    uint8_t room[BATCH * WEIGHTS];
    fovea_attention_desc attention;
    fovea_attention_args args;
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_attention_desc_init(&attention);
    fovea_attention_args_init(&args);
    fovea_mha_desc_init(&desc);
    fovea_mha_weights_init(&w);
    attention.batch = BATCH;
    attention.q_heads = attention.kv_heads = HEADS;
    attention.q_len = QUERIES;
    attention.kv_len = KEYS;
    attention.head_dim = KEY_DIM;
    attention.value_dim = VALUE_DIM;
    args.q = rows(owned[8], QUERIES, features[0]);
    args.k = rows(owned[9], KEYS, features[1]);
    args.v = rows(owned[10], KEYS, features[2]);
    args.out = rows(out, QUERIES, features[3]);
    args.weights = fovea_tensor_bhtd(weights, FOVEA_DTYPE_F32, BATCH, HEADS, QUERIES, KEYS);
    fovea_from_keras(&attention, &args, query_masked ? m->query : NULL, masked ? m->value : NULL,
                     masked ? m->key : NULL, masked ? m->tensor : (fovea_tensor){0}, causal, room);
    desc.attention = &attention;
    desc.form = FOVEA_MHA_FACTORED;
    desc.inputs = FOVEA_MHA_SEPARATE;
    desc.q_features = features[0];
    desc.k_features = features[1];
    desc.v_features = features[2];
    desc.out_features = features[3];
    desc.biases = 1;
    w.q = fovea_matrix_in_out(kernels[0], FOVEA_DTYPE_F32, features[0], HEADS * KEY_DIM);
    w.k = fovea_matrix_in_out(kernels[1], FOVEA_DTYPE_F32, features[1], HEADS * KEY_DIM);
    w.v = fovea_matrix_in_out(kernels[2], FOVEA_DTYPE_F32, features[2], HEADS * VALUE_DIM);
    w.o = fovea_matrix_in_out(kernels[3], FOVEA_DTYPE_F32, HEADS * VALUE_DIM, features[3]);
    w.q_bias = biases[0];
    w.k_bias = biases[1];
    w.v_bias = biases[2];
    w.o_bias = biases[3];
    test_check(mha_once(ctx, &desc, &w, &args) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    compare(out, recorded(want, "out", BATCH * QUERIES * features[3]), BATCH * QUERIES * features[3], what);
    compare(weights, recorded(want, "weights", BATCH * HEADS * WEIGHTS), BATCH * HEADS * WEIGHTS, what);
    for (int i = 0; i < 11; i++)
        free(owned[i]);
}

static void attention(const fovea_context *ctx, const masks *m, double scale, bool masked, const char *want,
                      const char *what) {
    enum { CHANNELS = 6 };
    float *q = fill(21, BATCH * QUERIES * CHANNELS), *v = fill(22, BATCH * KEYS * CHANNELS);
    float *k = fill(23, BATCH * KEYS * CHANNELS), out[BATCH * QUERIES * CHANNELS], weights[BATCH * WEIGHTS];
    uint8_t room[BATCH * WEIGHTS];
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, rows(q, QUERIES, CHANNELS), rows(k, KEYS, CHANNELS), rows(v, KEYS, CHANNELS),
                rows(out, QUERIES, CHANNELS));
    fovea_from_keras(&desc, &args, masked ? m->query : NULL, masked ? m->value : NULL, NULL, (fovea_tensor){0}, masked,
                     room);
    desc.has_scale = 1;
    desc.scale = scale;
    args.weights = rows(weights, QUERIES, KEYS);
    execute(ctx, &desc, &args, what);
    compare(out, recorded(want, "out", BATCH * QUERIES * CHANNELS), BATCH * QUERIES * CHANNELS, what);
    const float *want_weights = recorded(want, "weights", BATCH * WEIGHTS);
    /* Keras masks queries in the output alone: their weights are there. */
    for (int i = 0; i < BATCH * WEIGHTS; i++)
        if (masked && !m->query[i / KEYS])
            weights[i] = want_weights[i];
    compare(weights, want_weights, BATCH * WEIGHTS, what);
    free(q);
    free(k);
    free(v);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_keras", NULL);
    test_arrays_read("compat_keras");
    fovea_context *ctx = test_context_untuned();
    const masks m = masks_make();
    layer(ctx, &m, false, false, false, "plain", "MultiHeadAttention");
    layer(ctx, &m, false, false, true, "causal", "use_causal_mask");
    layer(ctx, &m, true, false, false, "masks", "attention, value and key masks");
    layer(ctx, &m, true, true, true, "query_mask", "all masks, causal");
    attention(ctx, &m, 1.0, false, "attention", "Attention");
    attention(ctx, &m, 0.375, true, "attention_masks", "Attention, use_scale, masks, causal");
    masks_free(&m);
    fovea_context_destroy(ctx);
    return test_end();
}
