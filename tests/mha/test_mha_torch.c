/* Layers against what torch.nn.MultiheadAttention gave, recorded by data/mha_torch.py in float64. */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <stdlib.h>

static fovea_tensor rows(const float *x, int64_t batch, int64_t tokens, int64_t features) {
    return fovea_tensor_bhtd((void *)(uintptr_t)x, FOVEA_DTYPE_F32, batch, 1, tokens, features);
}

static void run(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *weights,
                fovea_attention_args *args, const char *want, const char *what) {
    const int64_t batch = desc->attention->batch, q_len = desc->attention->q_len,
                  n = batch * q_len * desc->out_features;
    float *out = must_alloc(n, sizeof *out);
    poison_fill(out, n);
    args->out = rows(out, batch, q_len, desc->out_features);
    if (test_check(mha_once(ctx, desc, weights, args) == FOVEA_OK, "%s: %s", what, fovea_error_detail()))
        compare(out, recorded(want, "out", n), n, what);
    free(out);
}

enum { EMBED = 24, BATCH = 2, TOKENS = 7, HEADS = 4 };

static fovea_mha_desc self_desc(int64_t heads, fovea_attention_desc *attention) {
    fovea_mha_desc desc;
    fovea_mha_desc_init(&desc);
    fovea_attention_desc_init(attention);
    desc.attention = attention;
    desc.form = FOVEA_MHA_FUSED;
    desc.q_features = desc.out_features = EMBED;
    desc.biases = 1;
    attention->batch = BATCH;
    attention->q_heads = attention->kv_heads = heads;
    attention->q_len = attention->kv_len = TOKENS;
    attention->head_dim = attention->value_dim = EMBED / heads;
    return desc;
}

static void test_self(const fovea_context *ctx) {
    float *x = fill(1, BATCH * TOKENS * EMBED), *bias = fill(100, 3 * EMBED);
    float *in = fill(101, 3 * EMBED * EMBED), *o_bias = fill(102, EMBED), *o = fill(103, EMBED * EMBED);
    float *weights = must_alloc(BATCH * HEADS * TOKENS * TOKENS, sizeof *weights);
    fovea_attention_desc attention;
    fovea_mha_desc desc = self_desc(HEADS, &attention);
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    w.fused = fovea_matrix_out_in(in, FOVEA_DTYPE_F32, 3 * EMBED, EMBED);
    w.fused_bias = bias;
    w.o = fovea_matrix_out_in(o, FOVEA_DTYPE_F32, EMBED, EMBED);
    w.o_bias = o_bias;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = rows(x, BATCH, TOKENS, EMBED);
    args.weights = fovea_tensor_bhtd(weights, FOVEA_DTYPE_F32, BATCH, HEADS, TOKENS, TOKENS);
    run(ctx, &desc, &w, &args, "self", "self-attention");
    compare(weights, recorded("self", "weights", BATCH * HEADS * TOKENS * TOKENS), BATCH * HEADS * TOKENS * TOKENS,
            "weights");
    args.weights.data = NULL;
    attention.causal = FOVEA_CAUSAL_TOP_LEFT;
    run(ctx, &desc, &w, &args, "causal", "causal");
    attention.causal = FOVEA_CAUSAL_NONE;
    const int64_t lens[] = {TOKENS, 4};
    args.kv_lens = lens;
    run(ctx, &desc, &w, &args, "padded", "key_padding_mask");
    float *bare_in = fill(100, 3 * EMBED * EMBED), *bare_o = fill(101, EMBED * EMBED);
    desc = self_desc(3, &attention);
    desc.biases = 0;
    fovea_mha_weights_init(&w);
    w.fused = fovea_matrix_out_in(bare_in, FOVEA_DTYPE_F32, 3 * EMBED, EMBED);
    w.o = fovea_matrix_out_in(bare_o, FOVEA_DTYPE_F32, EMBED, EMBED);
    args.kv_lens = NULL;
    run(ctx, &desc, &w, &args, "plain", "without biases");
    float *all[] = {x, bias, in, o_bias, o, weights, bare_in, bare_o};
    for (int i = 0; i < 8; i++)
        free(all[i]);
}

static void test_cross(const fovea_context *ctx) {
    enum { QUERIES = 5, KEYS = 9, KDIM = 10, VDIM = 14 };
    float *q = fill(2, BATCH * QUERIES * EMBED), *k = fill(3, BATCH * KEYS * KDIM), *v = fill(4, BATCH * KEYS * VDIM);
    float *bias = fill(100, 3 * EMBED), *wk = fill(101, EMBED * KDIM), *o_bias = fill(102, EMBED);
    float *o = fill(103, EMBED * EMBED), *wq = fill(104, EMBED * EMBED), *wv = fill(105, EMBED * VDIM);
    fovea_attention_desc attention;
    fovea_mha_desc desc = self_desc(3, &attention);
    desc.form = FOVEA_MHA_FACTORED;
    desc.inputs = FOVEA_MHA_SEPARATE;
    desc.k_features = KDIM;
    desc.v_features = VDIM;
    attention.q_len = QUERIES;
    attention.kv_len = KEYS;
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    w.q = fovea_matrix_out_in(wq, FOVEA_DTYPE_F32, EMBED, EMBED);
    w.k = fovea_matrix_out_in(wk, FOVEA_DTYPE_F32, EMBED, KDIM);
    w.v = fovea_matrix_out_in(wv, FOVEA_DTYPE_F32, EMBED, VDIM);
    w.o = fovea_matrix_out_in(o, FOVEA_DTYPE_F32, EMBED, EMBED);
    w.q_bias = bias;
    w.k_bias = bias + EMBED;
    w.v_bias = bias + 2 * EMBED;
    w.o_bias = o_bias;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = rows(q, BATCH, QUERIES, EMBED);
    args.k = rows(k, BATCH, KEYS, KDIM);
    args.v = rows(v, BATCH, KEYS, VDIM);
    run(ctx, &desc, &w, &args, "cross", "cross-attention, kdim, vdim");
    float *all[] = {q, k, v, bias, wk, o_bias, o, wq, wv};
    for (int i = 0; i < 9; i++)
        free(all[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_torch", NULL);
    test_arrays_read("mha_torch");
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    test_self(ctx);
    test_cross(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
