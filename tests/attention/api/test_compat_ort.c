/* GroupQueryAttention of ONNX Runtime, described by fovea_from_ort_gqa(), against what it gave
 * (data/compat_ort.py). */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, BATCH = 2, DIM = 8 };

typedef struct gqa_case {
    const char *name;
    int64_t q_len, past;
    int32_t seqlens_k[BATCH];
    double scale; /* 0: the default */
    int64_t local_window_size;
    double softcap;
    bool has_bias;
    const float *sinks; /* NULL: none */
    const char *want;
} gqa_case;

/* present_key or present_value: the past, and behind what seqlens_k leaves of it the new tokens. */
static float *present(const gqa_case *c, uint32_t past_seed, uint32_t seed) {
    const int64_t tokens = c->past + c->q_len;
    float *past = fill(past_seed, BATCH * KV_HEADS * c->past * DIM),
          *fresh = fill(seed, BATCH * c->q_len * KV_HEADS * DIM);
    float *all = must_alloc(BATCH * KV_HEADS * tokens * DIM, sizeof *all);
    poison_fill(all, BATCH * KV_HEADS * tokens * DIM);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < KV_HEADS; h++) {
            const int64_t old = c->past > 0 ? c->seqlens_k[b] + 1 - c->q_len : 0;
            float *to = all + (b * KV_HEADS + h) * tokens * DIM;
            memcpy(to, past + (b * KV_HEADS + h) * c->past * DIM, (size_t)(old * DIM) * sizeof *to);
            for (int64_t t = 0; t < c->q_len; t++)
                memcpy(to + (old + t) * DIM, fresh + ((b * c->q_len + t) * KV_HEADS + h) * DIM, DIM * sizeof *to);
        }
    free(past);
    free(fresh);
    return all;
}

static void run(const fovea_context *ctx, const gqa_case *c) {
    const int64_t n = BATCH * c->q_len * HEADS * DIM, tokens = c->past + c->q_len;
    float *q = fill(1, n), *k = present(c, 4, 2), *v = present(c, 5, 3), *out = must_alloc(n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        q[i] *= 4.0f;
    poison_fill(out, n);
    int64_t room[2 * BATCH];
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, fovea_tensor_bthd(q, FOVEA_DTYPE_F32, BATCH, c->q_len, HEADS, DIM),
                fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, BATCH, KV_HEADS, tokens, DIM),
                fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, BATCH, KV_HEADS, tokens, DIM),
                fovea_tensor_bthd(out, FOVEA_DTYPE_F32, BATCH, c->q_len, HEADS, DIM));
    fovea_from_ort_gqa(&desc, &args, c->seqlens_k, c->past == 0, c->local_window_size, room);
    desc.has_scale = c->scale != 0.0;
    desc.scale = c->scale;
    desc.softcap = c->softcap;
    desc.has_sinks = c->sinks != NULL;
    args.sinks = c->sinks;
    float *bias = fill(7, BATCH * 5 * 5);
    desc.has_bias = c->has_bias;
    if (c->has_bias)
        args.bias = fovea_tensor_bhtd(bias, FOVEA_DTYPE_F32, BATCH, 1, 5, 5);
    execute(ctx, &desc, &args, c->name);
    compare(out, recorded(c->want, NULL, n), n, c->name);
    free(q);
    free(k);
    free(v);
    free(out);
    free(bias);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_ort", NULL);
    test_arrays_read("compat_ort");
    fovea_context *ctx = test_context_untuned();
    const float zeros[HEADS] = {0};
    float *sinks = fill(6, HEADS);
    const gqa_case cases[] = {{"prompt, padded on the right", 5, 0, {4, 2}, 0.0, -1, 0.0, false, NULL, "prompt"},
                              {"scale", 5, 0, {4, 4}, 0.25, -1, 0.0, false, NULL, "scale"},
                              {"local_window_size", 5, 0, {4, 4}, 0.0, 2, 0.0, false, NULL, "window"},
                              {"decoding", 1, 7, {7, 4}, 0.0, -1, 0.0, false, NULL, "decode"},
                              {"decoding, local_window_size", 1, 7, {7, 4}, 0.0, 3, 0.0, false, NULL, "decode_window"},
                              {"softcap", 5, 0, {4, 4}, 0.0, -1, 1.5, false, NULL, "softcap"},
                              {"attention_bias and softcap", 5, 0, {4, 4}, 0.0, -1, 1.5, true, NULL, "bias"},
                              {"smooth_softmax", 5, 0, {4, 4}, 0.0, -1, 0.0, false, zeros, "smooth"},
                              {"head_sink", 5, 0, {4, 4}, 0.0, -1, 0.0, false, sinks, "sink"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run(ctx, &cases[i]);
    free(sinks);
    fovea_context_destroy(ctx);
    return test_end();
}
