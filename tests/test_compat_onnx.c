/* The node tests of the ONNX operator Attention, recorded by data/onnx_attention.py, mapped as a user would
 * by fovea_from_onnx(). Outputs are compared with the recorded ones, closer than ONNX asks for, and bit for bit with the
 * scalar tier's. Those of 16 bits were recorded with every step rounded to 16 bits: they lie as far off as a few such roundings may
 * bring them, the library rounding once. */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum onnx_type { ONNX_ABSENT, ONNX_F32, ONNX_F16, ONNX_BF16, ONNX_BOOL, ONNX_INT64 } onnx_type;

typedef struct onnx_tensor {
    onnx_type type;
    int rank;
    int64_t shape[4];
    int32_t first; /* word of the pool */
} onnx_tensor;

typedef struct onnx_attributes {
    int is_causal;
    double scale, softcap; /* 0: absent */
    int64_t q_num_heads, kv_num_heads, left_window_size, right_window_size;
    int qk_matmul_output_mode;
} onnx_attributes;

enum { Q, K, V, ATTN_MASK, PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN, INPUTS };
enum { Y, PRESENT_KEY, PRESENT_VALUE, QK_MATMUL_OUTPUT, OUTPUTS };

typedef struct onnx_case {
    const char *name;
    int opset;
    onnx_attributes attributes;
    onnx_tensor in[INPUTS], out[OUTPUTS];
} onnx_case;

#include "data/onnx_attention.h"

enum { CASES = sizeof onnx_cases / sizeof onnx_cases[0], MAX_BATCH = 4 };

static int64_t count_of(const onnx_tensor *t) {
    int64_t n = t->type == ONNX_ABSENT ? 0 : 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

/* A copy of the elements, as the library takes them. NULL if absent. Freed by the caller. */
static void *elements(const onnx_tensor *t) {
    const int64_t n = count_of(t);
    const uint32_t *words = onnx_pool + t->first;
    if (t->type == ONNX_ABSENT)
        return NULL;
    if (t->type == ONNX_BOOL) {
        uint8_t *bytes = must_alloc(n, 1);
        for (int64_t i = 0; i < n; i++)
            bytes[i] = words[i] != 0;
        return bytes;
    }
    if (t->type == ONNX_INT64) {
        int64_t *numbers = must_alloc(n, sizeof *numbers);
        for (int64_t i = 0; i < n; i++)
            numbers[i] = (int32_t)words[i];
        return numbers;
    }
    float *floats = must_alloc(n, sizeof *floats);
    memcpy(floats, words, (size_t)n * sizeof *floats);
    return floats;
}

/* A 4-D tensor, or a 3-D one of heads side by side, in memory of its elements. */
static fovea_tensor view(const onnx_tensor *t, int64_t heads, void *data) {
    return t->rank == 3 ? fovea_tensor_bthd(data, FOVEA_DTYPE_F32, t->shape[0], t->shape[1], heads, t->shape[2] / heads)
                        : fovea_tensor_aligned(data, FOVEA_DTYPE_F32, t->rank, t->shape);
}

static void copy_tokens(const fovea_tensor *from, const fovea_tensor *to) {
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t h = 0; h < from->shape[1]; h++)
            for (int64_t t = 0; t < from->shape[2]; t++)
                memcpy(tensor_row(to, b, h, t), tensor_row(from, b, h, t), (size_t)from->shape[3] * sizeof(float));
}

/* present = past, then new: contiguous, freed by the caller. As it comes where there is no past: *owned is NULL. */
static fovea_tensor present_of(const onnx_tensor *past, void *past_data, fovea_tensor fresh, float **owned) {
    *owned = NULL;
    if (past->type == ONNX_ABSENT)
        return fresh;
    const fovea_tensor old = view(past, 0, past_data);
    const int64_t tokens = old.shape[2] + fresh.shape[2];
    *owned = must_alloc(fresh.shape[0] * fresh.shape[1] * tokens * fresh.shape[3], sizeof(float));
    const fovea_tensor all =
        fovea_tensor_bhtd(*owned, FOVEA_DTYPE_F32, fresh.shape[0], fresh.shape[1], tokens, fresh.shape[3]);
    const fovea_tensor head = fovea_tensor_tokens(all, 0, old.shape[2]),
                       tail = fovea_tensor_tokens(all, old.shape[2], fresh.shape[2]);
    copy_tokens(&old, &head);
    copy_tokens(&fresh, &tail);
    return all;
}

/* ONNX asks for 1e-7 + 1e-3 |want| of float32. */
static double tolerance(onnx_type type) { return type == ONNX_BF16 ? 0x1p-6 : type == ONNX_F16 ? 0x1p-9 : 1e-5; }

static bool close_to(const float *got, const onnx_tensor *want, const char *name, const char *output) {
    const uint32_t *words = onnx_pool + want->first;
    const double close = tolerance(want->type);
    for (int64_t i = 0; i < count_of(want); i++) {
        float expected;
        memcpy(&expected, words + i, sizeof expected);
        const bool equal = isinf(expected)
                               ? got[i] == expected
                               : fabs((double)got[i] - (double)expected) <=
                                     (want->type == ONNX_F32 ? 1e-7 : close) + close * fabs((double)expected);
        if (!equal)
            return test_check(false, "%s: %s[%lld] is %.9g, recorded %.9g", name, output, (long long)i, (double)got[i],
                              (double)expected);
    }
    return true;
}

static fovea_dtype dtype_of(onnx_type type) {
    return type == ONNX_F16 ? FOVEA_DTYPE_F16 : type == ONNX_BF16 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
}

/* Executes with q, k, v and out in another type, where they are floats. */
static bool execute_as(const fovea_context *ctx, fovea_attention_desc *desc, fovea_attention_args *args,
                       fovea_dtype dtype, const char *name) {
    fovea_tensor *const tensors[] = {&args->q, &args->k, &args->v, &args->out};
    void *floats[4];
    if (dtype == FOVEA_DTYPE_F32)
        return execute(ctx, desc, args, name);
    desc->dtype = dtype;
    for (int i = 0; i < 4; i++) {
        fovea_tensor *t = tensors[i];
        floats[i] = t->data;
        t->data = must_alloc(tensor_elements(t), sizeof(float));
        convert_elements(tensor_elements(t), floats[i], FOVEA_DTYPE_F32, t->data, dtype);
        t->dtype = dtype;
    }
    const bool ok = execute(ctx, desc, args, name);
    convert_elements(tensor_elements(&args->out), args->out.data, dtype, floats[3], FOVEA_DTYPE_F32);
    for (int i = 0; i < 4; i++)
        free(tensors[i]->data);
    return ok;
}

/* The outputs of the operator. */
typedef struct results {
    float *y, *scores;
} results;

static bool run(const fovea_context *ctx, const onnx_case *c, const results *out) {
    const onnx_attributes *a = &c->attributes;
    void *in[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        in[i] = elements(&c->in[i]);
    float *owned_k, *owned_v;
    const fovea_tensor k = present_of(&c->in[PAST_KEY], in[PAST_KEY], view(&c->in[K], a->kv_num_heads, in[K]),
                                      &owned_k),
                       v = present_of(&c->in[PAST_VALUE], in[PAST_VALUE], view(&c->in[V], a->kv_num_heads, in[V]),
                                      &owned_v);
    bool ok = true;
    if (c->out[PRESENT_KEY].type != ONNX_ABSENT)
        ok = close_to(k.data, &c->out[PRESENT_KEY], c->name, "present_key") &&
             close_to(v.data, &c->out[PRESENT_VALUE], c->name, "present_value");

    fovea_attention_desc desc;
    fovea_attention_args args;
    int64_t room[2 * MAX_BATCH];
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, view(&c->in[Q], a->q_num_heads, in[Q]), k, v, view(&c->out[Y], a->q_num_heads, out->y));
    const onnx_tensor *mask = &c->in[ATTN_MASK];
    fovea_from_onnx(&desc, &args,
                    fovea_tensor_aligned(in[ATTN_MASK], mask->type == ONNX_BOOL ? FOVEA_DTYPE_BOOL : FOVEA_DTYPE_F32,
                                         mask->rank, mask->shape),
                    a->is_causal, c->in[PAST_KEY].type == ONNX_ABSENT ? 0 : c->in[PAST_KEY].shape[2],
                    in[NONPAD_KV_SEQLEN], room);
    desc.has_scale = a->scale != 0.0;
    desc.scale = a->scale;
    desc.softcap = a->softcap;
    desc.window_left = a->left_window_size;
    desc.window_right = a->right_window_size;
    fovea_attention_scores scores;
    fovea_attention_scores_init(&scores);
    if (out->scores) {
        scores.kind = (fovea_score_kind)a->qk_matmul_output_mode;
        scores.out = view(&c->out[QK_MATMUL_OUTPUT], 0, out->scores);
        args.scores = &scores;
    }
    ok = execute_as(ctx, &desc, &args, dtype_of(c->in[Q].type), c->name) && ok;
    for (int i = 0; i < INPUTS; i++)
        free(in[i]);
    free(owned_k);
    free(owned_v);
    return ok;
}

static bool run_case(const fovea_context *ctx, const fovea_context *scalar, const onnx_case *c) {
    const int64_t n = count_of(&c->out[Y]), m = count_of(&c->out[QK_MATMUL_OUTPUT]);
    float *memory = must_alloc(2 * (n + m), sizeof *memory);
    poison_fill(memory, 2 * (n + m));
    const results got = {memory, m > 0 ? memory + n : NULL}, want = {memory + n + m, m > 0 ? memory + 2 * n + m : NULL};
    bool ok = run(ctx, c, &got) && run(scalar, c, &want);
    ok = ok && close_to(got.y, &c->out[Y], c->name, "Y");
    ok = ok && close_to(got.scores, &c->out[QK_MATMUL_OUTPUT], c->name, "qk_matmul_output");
    ok = ok && test_same(memory, want.y, n + m, "%s: the scalar tier's bits", c->name);
    free(memory);
    return ok;
}

/* A mask with fewer columns than there are keys, beside nonpad_kv_seqlen on either side of its width: keys are those that both
 * have, and is_causal still counts from the last valid key. */
static void test_narrow(const fovea_context *ctx) {
    enum { BATCH = 2, TOKENS = 3, KEYS = 9, COLUMNS = 6 };
    static const int64_t valid[BATCH] = {8, 4}, shape[2] = {TOKENS, COLUMNS};
    float x[BATCH * KEYS] = {0}, v[BATCH * KEYS], out[BATCH * TOKENS];
    uint8_t mask[TOKENS * COLUMNS];
    int64_t room[2 * BATCH];
    for (int i = 0; i < BATCH * KEYS; i++)
        v[i] = (float)(i % KEYS);
    memset(mask, 1, sizeof mask);
    fovea_attention_desc desc;
    fovea_attention_args args;
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, BATCH, 1, TOKENS, 1),
                fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, BATCH, 1, KEYS, 1),
                fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, BATCH, 1, KEYS, 1),
                fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, 1, TOKENS, 1));
    fovea_from_onnx(&desc, &args, fovea_tensor_aligned(mask, FOVEA_DTYPE_BOOL, 2, shape), 1, 0, valid, room);
    if (!execute(ctx, &desc, &args, "a narrow mask and nonpad_kv_seqlen"))
        return;
    for (int64_t i = 0; i < BATCH * TOKENS; i++) { /* scores are 0: the mean of the values seen, 0, 1, 2 ... */
        const int64_t b = i / TOKENS, causal = valid[b] - TOKENS + i % TOKENS,
                      last = causal < COLUMNS - 1 ? causal : COLUMNS - 1;
        test_check(fabs((double)out[i] - (double)last / 2) < 1e-6,
                   "a narrow mask: query %d of %d sees up to key %g, not %d", (int)(i % TOKENS), (int)b,
                   2 * (double)out[i], (int)last);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "compat_onnx", NULL);
    fovea_context *ctx = test_context_untuned(), *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    int passed = 0;
    for (int i = 0; i < CASES; i++)
        passed += run_case(ctx, scalar, &onnx_cases[i]);
    printf("ONNX Attention: %d of %d cases passed\n", passed, (int)CASES);
    test_narrow(ctx);
    test_check(CASES == 93, "%d cases were recorded, not 93", (int)CASES);
    fovea_context_destroy(ctx);
    fovea_context_destroy(scalar);
    return test_end();
}
