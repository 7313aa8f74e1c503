/* Calls of other systems: a text goes through PyTorch's causal attention at once, then its last token through
 * FlashAttention's decoding with a cache (fovea/compat.h). The token's row has the same bits. */
#include <fovea/fovea.h>

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, TOKENS = 6, DIM = 8, CACHE = 16 };

/* out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), all [batch, heads, tokens, channels] */
static fovea_status torch_sdpa(const fovea_context *context, float *q, float *k, float *v, float *out) {
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    desc.batch = BATCH;
    desc.q_heads = HEADS;
    desc.kv_heads = KV_HEADS;
    desc.q_len = desc.kv_len = TOKENS;
    desc.head_dim = desc.value_dim = DIM;
    desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, BATCH, HEADS, TOKENS, DIM);
    args.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, BATCH, KV_HEADS, TOKENS, DIM);
    args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, BATCH, KV_HEADS, TOKENS, DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, HEADS, TOKENS, DIM);
    fovea_status status = fovea_attention_plan_create(context, &desc, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, &args, NULL, 0);
    fovea_attention_plan_destroy(plan);
    return status;
}

/* out = flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=cache_seqlens, causal=True), all [batch,
 * tokens, heads, channels]; k and v, one new token of each sequence, are already in the caches */
static fovea_status flash_decode(const fovea_context *context, float *q, float *k_cache, float *v_cache,
                                 const int32_t *cache_seqlens, float *out) {
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_plan *plan;
    int64_t buffer[3 * BATCH];
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    desc.batch = BATCH;
    desc.q_heads = HEADS;
    desc.kv_heads = KV_HEADS;
    desc.q_len = 1;
    desc.kv_len = CACHE;
    desc.head_dim = desc.value_dim = DIM;
    args.q = fovea_tensor_bthd(q, FOVEA_DTYPE_F32, BATCH, 1, HEADS, DIM);
    args.k = fovea_tensor_bthd(k_cache, FOVEA_DTYPE_F32, BATCH, CACHE, KV_HEADS, DIM);
    args.v = fovea_tensor_bthd(v_cache, FOVEA_DTYPE_F32, BATCH, CACHE, KV_HEADS, DIM);
    args.out = fovea_tensor_bthd(out, FOVEA_DTYPE_F32, BATCH, 1, HEADS, DIM);
    fovea_from_flash_kvcache(&desc, &args, cache_seqlens, 1, NULL, 1, -1, -1, buffer);
    fovea_status status = fovea_attention_plan_create(context, &desc, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, &args, NULL, 0);
    fovea_attention_plan_destroy(plan);
    return status;
}

/* Any numbers. */
static void fill(float *x, int n, int step) {
    for (int i = 0; i < n; i++)
        x[i] = (float)(i * step % 17) / 8.0f - 1.0f;
}

/* The rows of sequence b, head h: [batch, heads, tokens, channels] here, [batch, tokens, heads, channels] there. */
static const float *bhtd(const float *x, int heads, int b, int h, int t) {
    return x + ((b * heads + h) * TOKENS + t) * DIM;
}

int main(void) {
    float q[BATCH * HEADS * TOKENS * DIM], k[BATCH * KV_HEADS * TOKENS * DIM], v[BATCH * KV_HEADS * TOKENS * DIM];
    float out[BATCH * HEADS * TOKENS * DIM], last_q[BATCH * HEADS * DIM], last[BATCH * HEADS * DIM];
    float k_cache[BATCH * CACHE * KV_HEADS * DIM] = {0}, v_cache[BATCH * CACHE * KV_HEADS * DIM] = {0};
    const int32_t cache_seqlens[BATCH] = {TOKENS - 1, TOKENS - 1};
    fill(q, BATCH * HEADS * TOKENS * DIM, 5);
    fill(k, BATCH * KV_HEADS * TOKENS * DIM, 3);
    fill(v, BATCH * KV_HEADS * TOKENS * DIM, 7);
    for (int b = 0; b < BATCH; b++) {
        for (int h = 0; h < HEADS; h++)
            memcpy(last_q + (b * HEADS + h) * DIM, bhtd(q, HEADS, b, h, TOKENS - 1), DIM * sizeof(float));
        for (int h = 0; h < KV_HEADS; h++)
            for (int t = 0; t < TOKENS; t++) {
                const int at = ((b * CACHE + t) * KV_HEADS + h) * DIM;
                memcpy(k_cache + at, bhtd(k, KV_HEADS, b, h, t), DIM * sizeof(float));
                memcpy(v_cache + at, bhtd(v, KV_HEADS, b, h, t), DIM * sizeof(float));
            }
    }

    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL; /* idle threads sleep: other programs may want the CPUs */
    fovea_context *context;
    fovea_status status = fovea_context_create(&options, &context);
    if (status == FOVEA_OK)
        status = torch_sdpa(context, q, k, v, out);
    if (status == FOVEA_OK)
        status = flash_decode(context, last_q, k_cache, v_cache, cache_seqlens, last);
    if (status != FOVEA_OK)
        fprintf(stderr, "%s\n", fovea_error_detail());
    fovea_context_destroy(context);
    if (status != FOVEA_OK)
        return 1;

    int same = 1;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            same = same &&
                   memcmp(last + (b * HEADS + h) * DIM, bhtd(out, HEADS, b, h, TOKENS - 1), DIM * sizeof(float)) == 0;
    printf("last token: %.9g ... %.9g\nthe same bits decoded: %s\n", last[0], last[BATCH * HEADS * DIM - 1],
           same ? "yes" : "no");
    return same ? 0 : 1;
}
