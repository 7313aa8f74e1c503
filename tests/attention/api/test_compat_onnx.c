/* The node tests of the ONNX operator Attention, recorded by data/onnx_attention.py, mapped as a user would by
 * fovea_from_onnx(). Outputs are compared with the recorded ones, closer than ONNX asks for, and bit for bit with the
 * scalar tier's. Those of 16 bits were recorded with every step rounded to 16 bits: they lie as far off as a few such
 * roundings may bring them, the library rounding once. */
#include "attention_case.h"
#include "recorded.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, ATTN_MASK, PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN, INPUTS };
enum { Y = INPUTS, PRESENT_KEY, PRESENT_VALUE, QK_MATMUL_OUTPUT, TENSORS };

/* scale, softcap: 0 is absent. */
typedef struct onnx_attributes {
    double is_causal, scale, softcap, q_num_heads, kv_num_heads, left_window_size, right_window_size,
        qk_matmul_output_mode;
} onnx_attributes;

typedef struct onnx_case {
    char name[sizeof((test_array *)0)->name];
    const onnx_attributes *attributes;
    const test_array *of[TENSORS]; /* NULL: absent */
} onnx_case;

enum { CASES = 93, MAX_BATCH = 4 };

/* The case whose attributes these are. */
static onnx_case case_of(const char *attributes) {
    static const char *const names[TENSORS] = {"Q",
                                               "K",
                                               "V",
                                               "attn_mask",
                                               "past_key",
                                               "past_value",
                                               "nonpad_kv_seqlen",
                                               "Y",
                                               "present_key",
                                               "present_value",
                                               "qk_matmul_output"};
    onnx_case c = {.attributes = test_array_named(attributes, "float64", sizeof *c.attributes / sizeof(double))};
    const int length = (int)(strchr(attributes, '/') - attributes);
    snprintf(c.name, sizeof c.name, "%.*s", length, attributes);
    for (int i = 0; i < TENSORS; i++) {
        char name[sizeof c.name];
        snprintf(name, sizeof name, "%.*s/%s", length, attributes, names[i]);
        c.of[i] = test_array_find(name);
    }
    return c;
}

static bool is_type(const test_array *t, const char *type) { return t && strcmp(t->type, type) == 0; }

/* NULL if absent. */
static void *elements(const test_array *t) { return t ? (void *)(uintptr_t)test_array_data(t) : NULL; }

static int64_t count_of(const test_array *t) { return t ? test_array_count(t) : 0; }

/* A 4-D tensor, or a 3-D one of heads side by side, in memory of its elements. */
static fovea_tensor view(const test_array *t, double heads, void *data) {
    const int64_t n = (int64_t)heads;
    return t->rank == 3 ? fovea_tensor_bthd(data, FOVEA_DTYPE_F32, t->shape[0], t->shape[1], n, t->shape[2] / n)
                        : fovea_tensor_broadcast(data, FOVEA_DTYPE_F32, (int)t->rank, t->shape);
}

static void copy_tokens(const fovea_tensor *from, const fovea_tensor *to) {
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t h = 0; h < from->shape[1]; h++)
            for (int64_t t = 0; t < from->shape[2]; t++)
                memcpy(tensor_row(to, b, h, t), tensor_row(from, b, h, t), (size_t)from->shape[3] * sizeof(float));
}

/* present = past, then new: contiguous, freed by the caller. As it comes where there is no past: *owned is NULL. */
static fovea_tensor present_of(const test_array *past, fovea_tensor fresh, float **owned) {
    *owned = NULL;
    if (!past)
        return fresh;
    const fovea_tensor old = view(past, 0, elements(past));
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
static bool close_to(const float *got, const test_array *want, const char *name, const char *output) {
    const float *floats = elements(want);
    const bool exact = is_type(want, "float32");
    const double close = exact ? 1e-5 : is_type(want, "float16") ? 0x1p-9 : 0x1p-6;
    for (int64_t i = 0; i < count_of(want); i++) {
        const float expected = floats[i];
        const bool equal = isinf(expected) ? got[i] == expected
                                           : fabs((double)got[i] - (double)expected) <=
                                                 (exact ? 1e-7 : close) + close * fabs((double)expected);
        if (!equal)
            return test_check(false, "%s: %s[%lld] is %.9g, recorded %.9g", name, output, (long long)i, (double)got[i],
                              (double)expected);
    }
    return true;
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
    const onnx_attributes *a = c->attributes;
    const test_array *const *of = c->of, *mask = of[ATTN_MASK];
    float *owned_k, *owned_v;
    const fovea_tensor k = present_of(of[PAST_KEY], view(of[K], a->kv_num_heads, elements(of[K])), &owned_k),
                       v = present_of(of[PAST_VALUE], view(of[V], a->kv_num_heads, elements(of[V])), &owned_v);
    bool ok = true;
    if (of[PRESENT_KEY])
        ok = close_to(k.data, of[PRESENT_KEY], c->name, "present_key") &&
             close_to(v.data, of[PRESENT_VALUE], c->name, "present_value");

    fovea_attention_desc desc;
    fovea_attention_args args;
    int64_t room[2 * MAX_BATCH];
    fovea_attention_desc_init(&desc);
    fovea_attention_args_init(&args);
    set_tensors(&desc, &args, view(of[Q], a->q_num_heads, elements(of[Q])), k, v, view(of[Y], a->q_num_heads, out->y));
    fovea_from_onnx(&desc, &args,
                    fovea_tensor_broadcast(elements(mask), is_type(mask, "bool") ? FOVEA_DTYPE_BOOL : FOVEA_DTYPE_F32,
                                           mask ? (int)mask->rank : 0, mask ? mask->shape : NULL),
                    a->is_causal != 0.0, of[PAST_KEY] ? of[PAST_KEY]->shape[2] : 0, elements(of[NONPAD_KV_SEQLEN]),
                    room);
    desc.has_scale = a->scale != 0.0;
    desc.scale = a->scale;
    desc.softcap = a->softcap;
    desc.window_left = (int64_t)a->left_window_size;
    desc.window_right = (int64_t)a->right_window_size;
    fovea_attention_scores scores;
    fovea_attention_scores_init(&scores);
    if (out->scores) {
        scores.kind = (fovea_score_kind)a->qk_matmul_output_mode;
        scores.out = view(of[QK_MATMUL_OUTPUT], 0, out->scores);
        args.scores = &scores;
    }
    const fovea_dtype dtype = is_type(of[Q], "float16")    ? FOVEA_DTYPE_F16
                              : is_type(of[Q], "bfloat16") ? FOVEA_DTYPE_BF16
                                                           : FOVEA_DTYPE_F32;
    ok = execute_as(ctx, &desc, &args, dtype, c->name) && ok;
    free(owned_k);
    free(owned_v);
    return ok;
}

static bool run_case(const fovea_context *ctx, const fovea_context *scalar, const onnx_case *c) {
    const int64_t n = count_of(c->of[Y]), m = count_of(c->of[QK_MATMUL_OUTPUT]);
    float *memory = must_alloc(2 * (n + m), sizeof *memory);
    poison_fill(memory, 2 * (n + m));
    const results got = {memory, m > 0 ? memory + n : NULL}, want = {memory + n + m, m > 0 ? memory + 2 * n + m : NULL};
    bool ok = run(ctx, c, &got) && run(scalar, c, &want);
    ok = ok && close_to(got.y, c->of[Y], c->name, "Y");
    ok = ok && close_to(got.scores, c->of[QK_MATMUL_OUTPUT], c->name, "qk_matmul_output");
    ok = ok && test_same(memory, want.y, n + m, "%s: the scalar tier's bits", c->name);
    free(memory);
    return ok;
}

/* A mask with fewer columns than there are keys, with nonpad_kv_seqlen on either side of its width: keys are those
 * that both have, and is_causal still counts from the last valid key. */
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
    fovea_from_onnx(&desc, &args, fovea_tensor_broadcast(mask, FOVEA_DTYPE_BOOL, 2, shape), 1, 0, valid, room);
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
    const int64_t all = test_arrays_read("onnx_attention");
    fovea_context *ctx = test_context_untuned(), *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    int passed = 0, cases = 0;
    for (int64_t i = 0; i < all; i++)
        if (strstr(test_array_at(i)->name, "/attributes")) {
            const onnx_case c = case_of(test_array_at(i)->name);
            passed += run_case(ctx, scalar, &c);
            cases++;
        }
    printf("ONNX Attention: %d of %d cases passed\n", passed, cases);
    test_narrow(ctx);
    test_check(cases == CASES, "%d cases were recorded, not %d", cases, (int)CASES);
    fovea_context_destroy(ctx);
    fovea_context_destroy(scalar);
    return test_end();
}
