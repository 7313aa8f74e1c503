/* PyTorch's scaled_dot_product_attention and nn.MultiheadAttention, against what PyTorch gave
 * (data/compat_torch.py). What is refused: test_compat_errors.c. */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <stdlib.h>

static const fovea_tensor absent;

/* As bits() in data/compat_torch.py. Freed by the caller. */
static uint8_t *bits(uint32_t seed, int64_t n) {
    float *x = fill(seed, n);
    uint8_t *b = must_alloc(n, 1);
    for (int64_t i = 0; i < n; i++)
        b[i] = (int)(x[i] * 64.0f + 64.0f) % 3 == 0;
    free(x);
    return b;
}

/* -------------------------------------------------------------------------------- scaled_dot_product_attention -- */

enum { SDPA_BATCH = 2, SDPA_HEADS = 4, SDPA_KV_HEADS = 2, SDPA_DIM = 8, SDPA_VALUE_DIM = 6 };

static void sdpa(const fovea_context *ctx, int64_t q_len, int64_t kv_len, fovea_tensor mask, int is_causal,
                 const double *scale, const char *want, const char *what) {
    const int64_t q_size = SDPA_BATCH * SDPA_HEADS * q_len * SDPA_DIM, n = q_size / SDPA_DIM * SDPA_VALUE_DIM;
    float *q = fill(1, q_size), *k = fill(2, SDPA_BATCH * SDPA_KV_HEADS * kv_len * SDPA_DIM);
    float *v = fill(3, SDPA_BATCH * SDPA_KV_HEADS * kv_len * SDPA_VALUE_DIM), *out = must_alloc(n, sizeof *out);
    for (int64_t i = 0; i < q_size; i++)
        q[i] *= 4.0f;
    poison_fill(out, n);
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, SDPA_BATCH, SDPA_HEADS, q_len, SDPA_DIM),
                fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, SDPA_BATCH, SDPA_KV_HEADS, kv_len, SDPA_DIM),
                fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, SDPA_BATCH, SDPA_KV_HEADS, kv_len, SDPA_VALUE_DIM),
                fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, SDPA_BATCH, SDPA_HEADS, q_len, SDPA_VALUE_DIM));
    set_mask(&desc, &args, mask);
    desc.causal = is_causal ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
    desc.has_scale = scale != NULL;
    desc.scale = scale ? *scale : 0.0;
    execute(ctx, &desc, &args, what);
    compare(out, recorded(want, NULL, n), n, what);
    free(q);
    free(k);
    free(v);
    free(out);
}

static void test_sdpa(const fovea_context *ctx) {
    const double negative = -0.3, zero = 0.0;
    sdpa(ctx, 5, 9, absent, 1, NULL, "sdpa_causal_wide", "sdpa, causal, more keys");
    sdpa(ctx, 9, 5, absent, 1, NULL, "sdpa_causal_tall", "sdpa, causal, more queries");
    sdpa(ctx, 5, 9, absent, 0, &negative, "sdpa_scale_negative", "sdpa, negative scale");
    sdpa(ctx, 5, 9, absent, 0, &zero, "sdpa_scale_zero", "sdpa, scale 0");
    uint8_t *keep = bits(4, 5 * 9);
    for (int i = 0; i < 5 * 9; i++)
        keep[i] = !keep[i] && i / 9 != 2;
    sdpa(ctx, 5, 9, fovea_tensor_broadcast(keep, FOVEA_DTYPE_BOOL, 2, (const int64_t[]){5, 9}), 0, NULL, "sdpa_boolean",
         "sdpa, boolean mask");
    float *added = fill(5, 2 * 5 * 9);
    sdpa(ctx, 5, 9, fovea_tensor_broadcast(added, FOVEA_DTYPE_F32, 4, (const int64_t[]){2, 1, 5, 9}), 0, NULL,
         "sdpa_additive", "sdpa, additive mask");
    free(keep);
    free(added);
}

/* ---------------------------------------------------------------------------------------- nn.MultiheadAttention -- */

enum { HEADS = 4, EMBED = 24, DIM = EMBED / HEADS, BATCH = 2, QUERIES = 5, KEYS = 7, EXTRA = 2 };

/* Projections of the rows of x into tokens of [batch, token, channel] memory with room for all of them. */
static void project(const float *x, int64_t rows, const float *weight, const float *bias, float *y, int64_t all) {
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t t = 0; t < rows; t++)
            for (int64_t o = 0; o < EMBED; o++) {
                double sum = (double)bias[o];
                for (int64_t i = 0; i < EMBED; i++)
                    sum += (double)x[(b * rows + t) * EMBED + i] * (double)weight[o * EMBED + i];
                y[(b * all + t) * EMBED + o] = (float)sum;
            }
}

/* A parameter of the module. */
static float *parameter(uint32_t seed, int64_t n) {
    float *x = fill(seed, n);
    for (int64_t i = 0; i < n; i++)
        x[i] /= 4.0f;
    return x;
}

typedef struct mha_case {
    const char *name;
    fovea_tensor attn_mask;
    const uint8_t *key_padding_mask;
    bool is_causal, bias_kv, zero, sink; /* sink: the key of zeros of add_zero_attn as a sink */
    const char *want;
} mha_case;

static void mha(const fovea_context *ctx, const mha_case *c) {
    const int64_t kv_len = KEYS + c->bias_kv + c->zero, n = BATCH * QUERIES * EMBED;
    const uint32_t seed = c->bias_kv ? 102 : 100; /* bias_k and bias_v come before */
    float *in_bias = parameter(seed, 3 * EMBED), *in_weight = parameter(seed + 1, 3 * EMBED * EMBED);
    float *out_bias = parameter(seed + 2, EMBED), *out_weight = parameter(seed + 3, EMBED * EMBED);
    float *bias_k = parameter(100, EMBED), *bias_v = parameter(101, EMBED);
    float *x[3] = {fill(1, n), fill(2, BATCH * KEYS * EMBED), fill(3, BATCH * KEYS * EMBED)}, *y[3];
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? QUERIES : KEYS, all = i == 0 ? QUERIES : kv_len;
        y[i] = must_alloc(BATCH * all * EMBED, sizeof *y[i]);
        project(x[i], rows, in_weight + i * EMBED * EMBED, in_bias + i * EMBED, y[i], all);
    }
    const fovea_tensor k = fovea_tensor_bthd(y[1], FOVEA_DTYPE_F32, BATCH, kv_len, HEADS, DIM),
                       v = fovea_tensor_bthd(y[2], FOVEA_DTYPE_F32, BATCH, kv_len, HEADS, DIM);
    if (c->bias_kv) {
        fovea_from_torch_key(k, KEYS, bias_k);
        fovea_from_torch_key(v, KEYS, bias_v);
    }
    if (c->zero) {
        fovea_from_torch_key(k, kv_len - 1, NULL);
        fovea_from_torch_key(v, kv_len - 1, NULL);
    }

    float *out = must_alloc(n, sizeof *out), *weights = must_alloc(BATCH * HEADS * QUERIES * kv_len, sizeof *weights);
    uint8_t room[BATCH * HEADS * QUERIES * (KEYS + EXTRA)];
    fovea_attention_desc attention;
    fovea_attention_args args;
    fovea_attention_desc_init(&attention);
    fovea_attention_args_init(&args);
    set_tensors(&attention, &args, fovea_tensor_bthd(y[0], FOVEA_DTYPE_F32, BATCH, QUERIES, HEADS, DIM), k, v,
                fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, 1, QUERIES, EMBED));
    fovea_from_torch_mha(&attention, &args, c->attn_mask, c->key_padding_mask, KEYS, c->is_causal, room);
    const float sinks[HEADS] = {0};
    attention.has_sinks = c->sink;
    args.sinks = c->sink ? sinks : NULL;
    args.weights = fovea_tensor_bhtd(weights, FOVEA_DTYPE_F32, BATCH, HEADS, QUERIES, kv_len);
    fovea_mha_desc desc;
    fovea_mha_weights w;
    fovea_mha_desc_init(&desc);
    fovea_mha_weights_init(&w);
    desc.form = FOVEA_MHA_PROJECTED; /* keys were added behind the projections */
    desc.inputs = FOVEA_MHA_SEPARATE;
    desc.out_features = EMBED;
    desc.biases = 1;
    w.o = fovea_matrix_out_in(out_weight, FOVEA_DTYPE_F32, EMBED, EMBED);
    w.o_bias = out_bias;
    desc.attention = &attention;
    fovea_mha *layer;
    if (test_check(fovea_mha_create(ctx, &desc, &w, &layer) == FOVEA_OK, "%s: %s", c->name, fovea_error_detail())) {
        test_check(fovea_mha_execute(layer, &args, NULL, 0) == FOVEA_OK, "%s: %s", c->name, fovea_error_detail());
        compare(out, recorded(c->want, "out", n), n, c->name);
        const float *want = recorded(c->want, "weights", BATCH * QUERIES * (kv_len + c->sink));
        float mean[BATCH * QUERIES * (KEYS + EXTRA)];
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t i = 0; i < QUERIES * kv_len; i++) {
                double sum = 0.0;
                for (int64_t h = 0; h < HEADS; h++)
                    sum += (double)weights[(b * HEADS + h) * QUERIES * kv_len + i];
                mean[b * QUERIES * kv_len + i] = (float)(sum / HEADS);
            }
        for (int64_t row = 0; row < BATCH * QUERIES; row++) /* a sink has no column */
            compare(mean + row * kv_len, want + row * (kv_len + c->sink), kv_len, c->name);
        fovea_mha_destroy(layer);
    }
    float *all[] = {in_bias, in_weight, out_bias, out_weight, bias_k, bias_v, x[0],
                    x[1],    x[2],      y[0],     y[1],       y[2],   out,    weights};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void test_mha(const fovea_context *ctx) {
    uint8_t *left_out = bits(6, QUERIES * KEYS), *padding = bits(7, BATCH * KEYS);
    float *floats = fill(9, QUERIES * KEYS);
    float more[QUERIES * (KEYS + 1)] = {0}; /* as floats, and a column for bias_k */
    for (int i = 0; i < QUERIES * KEYS; i++)
        more[i / KEYS * (KEYS + 1) + i % KEYS] = floats[i];
    uint8_t *by_head = bits(8, BATCH * HEADS * QUERIES * KEYS);
    for (int i = 0; i < BATCH * HEADS * QUERIES * KEYS; i += KEYS) {
        by_head[i] = 0;
        left_out[i % (QUERIES * KEYS)] = 0;
        padding[i % (BATCH * KEYS)] = 0;
    }
    const fovea_tensor mask = fovea_tensor_broadcast(left_out, FOVEA_DTYPE_BOOL, 2, (const int64_t[]){QUERIES, KEYS}),
                       added = fovea_tensor_broadcast(floats, FOVEA_DTYPE_F32, 2, (const int64_t[]){QUERIES, KEYS}),
                       wider = fovea_tensor_broadcast(more, FOVEA_DTYPE_F32, 2, (const int64_t[]){QUERIES, KEYS + 1}),
                       heads = fovea_tensor_bhtd(by_head, FOVEA_DTYPE_BOOL, BATCH, HEADS, QUERIES, KEYS);
    const mha_case cases[] = {
        {"attn_mask and key_padding_mask", mask, padding, false, false, false, false, "masks"},
        {"attn_mask of each head", heads, NULL, false, false, false, false, "by_head"},
        {"attn_mask of each head and key_padding_mask", heads, padding, false, false, false, false, "by_head_padding"},
        {"attn_mask of floats and key_padding_mask", added, padding, false, false, false, false, "float_padding"},
        {"key_padding_mask", absent, padding, false, false, false, false, "padding"},
        {"add_bias_kv", absent, NULL, false, true, false, false, "bias_kv"},
        {"add_bias_kv and masks", mask, padding, false, true, false, false, "bias_kv_masks"},
        {"add_bias_kv, causal", absent, NULL, true, true, false, false, "bias_kv_causal"},
        {"add_bias_kv, attn_mask of floats, key_padding_mask", wider, padding, false, true, false, false,
         "bias_kv_floats"},
        {"add_zero_attn and masks", mask, padding, false, false, true, false, "zero"},
        {"add_zero_attn as a sink", mask, padding, false, false, false, true, "zero"},
        {"add_bias_kv, add_zero_attn, causal, key_padding_mask", absent, padding, true, true, true, false, "both"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        mha(ctx, &cases[i]);
    free(left_out);
    free(padding);
    free(by_head);
    free(floats);
}

/* The module's weights as a whole layer: the bits of the same layer described by hand. */
static void test_mha_weights(const fovea_context *ctx) {
    float *in_bias = parameter(100, 3 * EMBED), *in_weight = parameter(101, 3 * EMBED * EMBED);
    float *out_bias = parameter(102, EMBED), *out_weight = parameter(103, EMBED * EMBED);
    float *x[3] = {fill(1, BATCH * QUERIES * EMBED), fill(2, BATCH * KEYS * EMBED), fill(3, BATCH * KEYS * EMBED)};
    uint8_t *left_out = bits(6, QUERIES * KEYS), *padding = bits(7, BATCH * KEYS), room[BATCH * QUERIES * KEYS];
    for (int i = 0; i < QUERIES * KEYS; i += KEYS)
        left_out[i] = padding[i % (BATCH * KEYS)] = 0;
    float out[BATCH * QUERIES * EMBED];
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
    attention.head_dim = attention.value_dim = DIM;
    args.q = fovea_tensor_bhtd(x[0], FOVEA_DTYPE_F32, BATCH, 1, QUERIES, EMBED);
    args.k = fovea_tensor_bhtd(x[1], FOVEA_DTYPE_F32, BATCH, 1, KEYS, EMBED);
    args.v = fovea_tensor_bhtd(x[2], FOVEA_DTYPE_F32, BATCH, 1, KEYS, EMBED);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, 1, QUERIES, EMBED);
    fovea_from_torch_mha(&attention, &args,
                         fovea_tensor_broadcast(left_out, FOVEA_DTYPE_BOOL, 2, (const int64_t[]){QUERIES, KEYS}),
                         padding, KEYS, 0, room);
    desc.form = FOVEA_MHA_FUSED;
    desc.inputs = FOVEA_MHA_SEPARATE;
    desc.q_features = desc.out_features = EMBED;
    desc.biases = 1;
    w.fused = fovea_matrix_out_in(in_weight, FOVEA_DTYPE_F32, 3 * EMBED, EMBED);
    w.fused_bias = in_bias;
    w.o = fovea_matrix_out_in(out_weight, FOVEA_DTYPE_F32, EMBED, EMBED);
    w.o_bias = out_bias;
    desc.attention = &attention;
    test_check(mha_once(ctx, &desc, &w, &args) == FOVEA_OK, "weights: %s", fovea_error_detail());
    compare(out, recorded("masks", "out", BATCH * QUERIES * EMBED), BATCH * QUERIES * EMBED, "weights of the module");
    void *all[] = {in_bias, in_weight, out_bias, out_weight, x[0], x[1], x[2], left_out, padding};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* May query i see key j, by the mask and the causality of a description? */
static bool sees(const fovea_attention_desc *d, const fovea_attention_args *args, const int64_t at[4]) {
    const uint8_t *mask = args->mask.data;
    for (int axis = 0; mask && axis < 4; axis++)
        mask += args->mask.shape[axis] == 1 ? 0 : at[axis] * args->mask.stride[axis];
    return (!mask || *mask) && (d->causal == FOVEA_CAUSAL_NONE || at[3] <= at[2]);
}

/* The masks of a module, all ways of giving them, one after another into the same description: what each query sees. */
static void test_mha_masks(void) {
    enum { EACH = QUERIES * KEYS };
    uint8_t *left_out = bits(6, BATCH * HEADS * EACH), *padding = bits(8, BATCH * KEYS);
    uint8_t room[BATCH * HEADS * QUERIES * (KEYS + EXTRA)];
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    desc.batch = BATCH;
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = QUERIES;
    for (int n = 0; n < 3 * 2 * 2 * (EXTRA + 1); n++) {
        const int masks = n % 3, extra = n / 12; /* masks: none, of all, of each head */
        const bool padded = n / 3 % 2, causal = n / 6 % 2;
        const fovea_tensor mask[] = {
            absent, fovea_tensor_broadcast(left_out, FOVEA_DTYPE_BOOL, 2, (const int64_t[]){QUERIES, KEYS}),
            fovea_tensor_bhtd(left_out, FOVEA_DTYPE_BOOL, BATCH, HEADS, QUERIES, KEYS)};
        int64_t wrong = 0, at[4];
        desc.kv_len = KEYS + extra;
        fovea_from_torch_mha(&desc, &args, mask[masks], padded ? padding : NULL, KEYS, causal, room);
        for (int64_t i = 0; i < BATCH * HEADS * QUERIES * desc.kv_len; i++) {
            at[0] = i / desc.kv_len / QUERIES / HEADS;
            at[1] = i / desc.kv_len / QUERIES % HEADS;
            at[2] = i / desc.kv_len % QUERIES;
            at[3] = i % desc.kv_len;
            const int64_t of = masks == 2 ? (at[0] * HEADS + at[1]) * EACH : 0;
            const bool out = (masks && left_out[of + at[2] * KEYS + at[3] % KEYS]) ||
                             (padded && padding[at[0] * KEYS + at[3] % KEYS]) || (causal && at[3] > at[2]);
            wrong += sees(&desc, &args, at) != (at[3] >= KEYS || !out);
        }
        test_check(wrong == 0, "attn_mask %d, key_padding_mask %d, causal %d, %d more keys: %d are seen otherwise",
                   masks, padded, causal, extra, (int)wrong);
    }
    free(left_out);
    free(padding);
}

static void test_edges(void) {
    const int64_t shape[5] = {2, 3, 4, 5, 6};
    float x[2 * 6] = {0};
    const fovea_tensor two = fovea_tensor_broadcast(x, FOVEA_DTYPE_F32, 2, shape);
    test_check(two.shape[0] == 1 && two.shape[1] == 1 && two.shape[2] == 2 && two.shape[3] == 3 && two.stride[2] == 3,
               "aligned at the last axis");
    test_check(fovea_tensor_broadcast(x, FOVEA_DTYPE_F32, 0, NULL).shape[3] == 1, "rank 0");
    test_check(fovea_tensor_broadcast(x, FOVEA_DTYPE_F32, 5, shape).shape[0] == -1, "rank 5");
    test_check(fovea_tensor_broadcast(x, FOVEA_DTYPE_F32, -1, shape).shape[0] == -1, "rank -1");
    const fovea_tensor tokens = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 2, 3, 2);
    fovea_from_torch_key(tokens, -1, x);
    fovea_from_torch_key(tokens, 3, x);
    const float value[4] = {1, 2, 3, 4}, want[12] = {0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0};
    fovea_from_torch_key(tokens, 1, value);
    test_same(x, want, 12, "one token of each head");
    test_check(fovea_tensor_broadcast(x, FOVEA_DTYPE_F32, 2, NULL).shape[0] == -1, "rank 2 without a shape");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_torch", NULL);
    test_arrays_read("compat_torch");
    fovea_context *ctx = test_context_untuned();
    test_sdpa(ctx);
    test_mha(ctx);
    test_mha_weights(ctx);
    test_mha_masks();
    test_edges();
    fovea_context_destroy(ctx);
    return test_end();
}
