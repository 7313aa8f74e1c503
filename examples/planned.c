/* Plan once, execute many times: the form for an inference program.
 *
 * A batch of two prompts of different length, padded to the longer one, goes through causal attention as in a decoder
 * layer. One projection has written queries, keys and values side by side, [batch][token][q, k, v][head][channel];
 * strides say so and nothing is copied. The workspace is the program's own, so that execution allocates nothing. Then
 * the shorter prompt is computed once more, alone and contiguous: its rows have the same bits, batch and padding or
 * not. */
#include <fovea/fovea.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 300, HEADS = 4, DIM = 64, SHORTER = 171, LAYERS = 3 };

/* An application keeps: one context for the process, one plan for a shape, one workspace for a
 * thread. */
typedef struct attention {
    fovea_context *context;
    fovea_attention_plan *plan;
    void *workspace;
    size_t workspace_size;
} attention;

/* The library's sentence says what was wrong; the caller decides what becomes of it. */
static int complain(const char *what, fovea_status status) {
    fprintf(stderr, "%s: %s (%s)\n", what, fovea_error_detail(), fovea_status_name(status));
    return -1;
}

static void attention_free(attention *a) {
    fovea_attention_plan_destroy(a->plan);
    fovea_context_destroy(a->context);
    free(a->workspace);
}

/* 0, or -1 after a message; attention_free() either way. */
static int attention_create(attention *a) {
    memset(a, 0, sizeof *a);
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL; /* idle threads sleep: other programs may want the CPUs */
    fovea_status status = fovea_context_create(&options, &a->context);
    if (status != FOVEA_OK)
        return complain("context", status);

    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.batch = BATCH;
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = desc.kv_len = TOKENS; /* the longest */
    desc.head_dim = desc.value_dim = DIM;
    desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    status = fovea_attention_plan_create(a->context, &desc, &a->plan);
    if (status != FOVEA_OK)
        return complain("plan", status);

    a->workspace_size = fovea_attention_plan_workspace_size(a->plan);
    a->workspace = malloc(a->workspace_size > 0 ? a->workspace_size : 1);
    if (a->workspace == NULL) {
        fprintf(stderr, "no memory for a workspace of %zu bytes\n", a->workspace_size);
        return -1;
    }
    return 0;
}

/* The queries (part 0), keys (1) or values (2) of packed memory: a view of HEADS of its 3 * HEADS heads. */
static fovea_tensor packed(float *qkv, int part) {
    fovea_tensor view = fovea_tensor_bthd(qkv, FOVEA_DTYPE_F32, BATCH, TOKENS, 3 * HEADS, DIM);
    view.data = qkv + part * HEADS * DIM;
    view.shape[1] = HEADS;
    return view;
}

/* One layer's attention. out [batch][token][head][channel], as the next projection wants it; lse [batch][head][token].
 * */
static int attend(const attention *a, float *qkv, const int64_t *lens, float *out, float *lse) {
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = packed(qkv, 0);
    args.k = packed(qkv, 1);
    args.v = packed(qkv, 2);
    args.q_lens = args.kv_lens = lens;
    args.out = fovea_tensor_bthd(out, FOVEA_DTYPE_F32, BATCH, TOKENS, HEADS, DIM);
    args.lse = fovea_tensor_bhtd(lse, FOVEA_DTYPE_F32, BATCH, HEADS, TOKENS, 1);
    fovea_status status = fovea_attention_execute(a->plan, &args, a->workspace, a->workspace_size);
    return status == FOVEA_OK ? 0 : complain("execute", status);
}

/* Stands for a projection: numbers in [-2, 2), the same on every machine. */
static void project(float *qkv, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        qkv[i] = (float)(seed >> 8) * 0x1p-22f - 2.0f;
    }
}

/* The second prompt by itself: 1 if its rows of out have the same bits, 0 if not, -1 after a message. */
static int same_alone(const float *qkv, const float *out) {
    enum { SIZE = HEADS * SHORTER * DIM };
    float *copy = malloc(4 * SIZE * sizeof *copy);
    if (copy == NULL)
        return -1;
    float *q = copy, *k = q + SIZE, *v = k + SIZE, *alone = v + SIZE;
    for (int64_t t = 0; t < SHORTER; t++)
        for (int64_t h = 0; h < HEADS; h++) {
            const float *from = qkv + ((TOKENS + t) * 3 * HEADS + h) * DIM;
            int64_t to = (h * SHORTER + t) * DIM;
            memcpy(q + to, from, DIM * sizeof *q);
            memcpy(k + to, from + HEADS * DIM, DIM * sizeof *k);
            memcpy(v + to, from + 2 * HEADS * DIM, DIM * sizeof *v);
        }
    fovea_status status =
        fovea_sdpa_f32(q, k, v, alone, 1, HEADS, HEADS, SHORTER, SHORTER, DIM, DIM, FOVEA_CAUSAL_TOP_LEFT);
    int same = status == FOVEA_OK ? 1 : complain("sdpa", status);
    for (int64_t t = 0; t < SHORTER && same == 1; t++)
        for (int64_t h = 0; h < HEADS; h++)
            same &=
                memcmp(out + ((TOKENS + t) * HEADS + h) * DIM, alone + (h * SHORTER + t) * DIM, DIM * sizeof *out) == 0;
    free(copy);
    return same;
}

int main(void) {
    const int64_t lens[BATCH] = {TOKENS, SHORTER};
    size_t qkv_count = (size_t)BATCH * TOKENS * 3 * HEADS * DIM;
    float *qkv = malloc(qkv_count * sizeof *qkv);
    float *out = malloc(qkv_count / 3 * sizeof *out);
    float *lse = malloc((size_t)BATCH * HEADS * TOKENS * sizeof *lse);
    attention a;
    int failed = attention_create(&a) != 0 || qkv == NULL || out == NULL || lse == NULL;

    for (int layer = 0; layer < LAYERS && !failed; layer++) {
        project(qkv, qkv_count, (uint32_t)layer);
        failed = attend(&a, qkv, lens, out, lse) != 0;
        if (!failed)
            printf("layer %d: prompt 0 ends with %.9g, lse %.9g; prompt 1 with %.9g, lse %.9g; padding is %g\n", layer,
                   out[(TOKENS * HEADS - 1) * DIM], lse[HEADS * TOKENS - 1],
                   out[((TOKENS + SHORTER) * HEADS - 1) * DIM], lse[(2 * HEADS - 1) * TOKENS + SHORTER - 1],
                   out[((TOKENS + SHORTER) * HEADS + 1) * DIM]);
    }
    if (!failed) {
        int same = same_alone(qkv, out);
        printf("prompt 1 alone has the same bits: %s\n", same == 1 ? "yes" : "no");
        failed = same != 1;
    }

    attention_free(&a);
    free(lse);
    free(out);
    free(qkv);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
