/* The operations between attention and products: results against those of ggml's CPU backend, with equal bits for any
 * number of threads; strides, broadcasts, other shapes, negative positions.
 *
 * Each case builds a graph's last node from three tensors of random numbers, a and b of float32 and rows of int32. */
#include "placed.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ggml_tensor tensor;
typedef struct operands {
    struct ggml_context *ctx;
    tensor *a, *b, *row; /* [96, 50, 6, 3], [96, 50, 6, 3], [50] */
} operands;

static tensor *add(operands o) { return ggml_add(o.ctx, o.a, o.b); }
static tensor *add_row(operands o) { return ggml_add(o.ctx, o.a, ggml_view_1d(o.ctx, o.b, 96, 0)); }
static tensor *mul_part(operands o) {
    return ggml_mul(o.ctx, o.a, ggml_view_4d(o.ctx, o.b, 32, 1, 6, 1, o.b->nb[1], o.b->nb[2], o.b->nb[3], 384));
}
static tensor *sub_permuted(operands o) {
    tensor *a = ggml_permute(o.ctx, o.a, 0, 2, 1, 3);
    return ggml_sub(o.ctx, a, ggml_permute(o.ctx, o.b, 0, 2, 1, 3));
}
static tensor *divide(operands o) { return ggml_div(o.ctx, o.a, o.b); }
static tensor *scale(operands o) { return ggml_scale(o.ctx, o.a, 0.3f); }
static tensor *scale_inplace(operands o) { return ggml_scale_inplace(o.ctx, ggml_cont(o.ctx, o.a), -7); }
static tensor *silu(operands o) { return ggml_silu(o.ctx, o.a); }
static tensor *gelu(operands o) { return ggml_gelu(o.ctx, o.a); }
static tensor *gelu_erf(operands o) { return ggml_gelu_erf(o.ctx, o.a); }
static tensor *gelu_quick(operands o) { return ggml_gelu_quick(o.ctx, o.a); }
static tensor *sigmoid(operands o) { return ggml_sigmoid(o.ctx, o.a); }
static tensor *relu_inplace(operands o) { return ggml_relu_inplace(o.ctx, ggml_cont(o.ctx, o.a)); }
static tensor *silu_rows(operands o) { return ggml_silu(o.ctx, ggml_view_2d(o.ctx, o.a, 40, 50, o.a->nb[1], 64)); }
static tensor *geglu_quick(operands o) { return ggml_geglu_quick(o.ctx, o.a); }
static tensor *geglu_erf(operands o) { return ggml_geglu_erf_swapped(o.ctx, o.a); }
static tensor *hyperbolic(operands o) { return ggml_tanh(o.ctx, o.a); }
static tensor *swiglu(operands o) { return ggml_swiglu(o.ctx, o.a); }
static tensor *swiglu_swapped(operands o) { return ggml_swiglu_swapped(o.ctx, o.a); }
static tensor *swiglu_split(operands o) { return ggml_swiglu_split(o.ctx, o.a, o.b); }
static tensor *geglu_view(operands o) {
    return ggml_geglu_split(o.ctx, ggml_view_2d(o.ctx, o.a, 48, 50, o.a->nb[1], 0),
                            ggml_view_2d(o.ctx, o.b, 48, 50, o.b->nb[1], 192));
}
static tensor *transposed(operands o) { return ggml_cont(o.ctx, ggml_permute(o.ctx, o.a, 1, 3, 0, 2)); }
static tensor *widened(operands o) {
    tensor *half = ggml_cast(o.ctx, ggml_transpose(o.ctx, o.a), GGML_TYPE_F16);
    return ggml_cast(o.ctx, ggml_permute(o.ctx, half, 2, 0, 1, 3), GGML_TYPE_F32);
}
static tensor *reshaped(operands o) {
    return ggml_cpy(o.ctx, ggml_transpose(o.ctx, o.a), ggml_reshape_3d(o.ctx, o.b, 100, 96, 9));
}
static tensor *rms_norm(operands o) { return ggml_rms_norm(o.ctx, ggml_permute(o.ctx, o.a, 0, 2, 1, 3), 1e-5f); }
static tensor *norm(operands o) { return ggml_norm(o.ctx, o.a, 1e-5f); }
static tensor *soft_max(operands o) { return ggml_soft_max(o.ctx, o.a); }
static tensor *soft_max_masked(operands o) {
    tensor *mask = ggml_cast(o.ctx, ggml_view_2d(o.ctx, o.b, 96, 50, o.b->nb[1], 0), GGML_TYPE_F16);
    return ggml_soft_max_ext(o.ctx, o.a, mask, 3, 8);
}
static tensor *rope_of(operands o, tensor *x, int dims, int mode, float scale, float extrapolation) {
    return ggml_rope_ext(o.ctx, x, o.row, NULL, dims, mode, 4096, 10000, scale, extrapolation, 1, 32, 1);
}
/* [96, 6, 50, 3]: heads within tokens. */
static tensor *heads(operands o) { return ggml_cont(o.ctx, ggml_permute(o.ctx, o.a, 0, 2, 1, 3)); }
static tensor *rope(operands o) { return rope_of(o, heads(o), 96, 0, 1, 0); }
static tensor *rope_halves(operands o) { return rope_of(o, ggml_permute(o.ctx, o.a, 0, 2, 1, 3), 64, 2, 0.25f, 0); }
static tensor *rope_yarn(operands o) { return rope_of(o, heads(o), 64, 2, 0.25f, 1); }
static tensor *rope_divided(operands o) {
    tensor *divisors = ggml_scale_bias(o.ctx, ggml_view_1d(o.ctx, o.b, 48, 0), 0.1f, 2);
    return ggml_rope_ext(o.ctx, heads(o), o.row, divisors, 96, 0, 4096, 10000, 1, 0, 1, 32, 1);
}
static tensor *rope_any_sign(operands o) {
    tensor *divisors = ggml_scale(o.ctx, ggml_view_1d(o.ctx, o.b, 48, 0), 3);
    return ggml_rope_ext(o.ctx, heads(o), o.row, divisors, 96, 2, 4096, 10000, 1, 0, 1, 32, 1);
}
static tensor *rope_half(operands o) {
    return ggml_cast(o.ctx, rope_of(o, ggml_cast(o.ctx, heads(o), GGML_TYPE_F16), 96, 2, 1, 0), GGML_TYPE_F32);
}
/* 12 tokens of four positions each. */
static tensor *rope_multi(operands o, int mode, int dims, int t, int h, int w, int e) {
    int sections[] = {t, h, w, e};
    tensor *x = heads(o);
    x = ggml_view_3d(o.ctx, x, 96, 6, 12, x->nb[1], x->nb[2], 0);
    return ggml_rope_multi(o.ctx, x, ggml_view_1d(o.ctx, o.row, 48, 0), NULL, dims, sections, mode, 4096, 10000, 1, 0,
                           1, 32, 1);
}
static tensor *mrope(operands o) { return rope_multi(o, GGML_ROPE_TYPE_MROPE, 96, 8, 10, 10, 4); }
static tensor *mrope_again(operands o) { return rope_multi(o, GGML_ROPE_TYPE_MROPE, 64, 3, 4, 5, 0); }
static tensor *imrope(operands o) { return rope_multi(o, GGML_ROPE_TYPE_IMROPE, 96, 11, 11, 10, 5); }
static tensor *vision(operands o) { return rope_multi(o, GGML_ROPE_TYPE_VISION, 48, 24, 24, 0, 0); }
static tensor *l2_norm(operands o) { return ggml_l2_norm(o.ctx, ggml_permute(o.ctx, o.a, 0, 2, 1, 3), 1e-6f); }
static tensor *l2_norm_small(operands o) { return ggml_l2_norm(o.ctx, o.b, 7); }
static tensor *softplus(operands o) { return ggml_softplus(o.ctx, ggml_scale(o.ctx, o.a, 10)); }
static tensor *sum_rows(operands o) { return ggml_sum_rows(o.ctx, ggml_permute(o.ctx, o.a, 0, 2, 1, 3)); }
static tensor *clamp(operands o) { return ggml_clamp(o.ctx, ggml_cont(o.ctx, o.a), -0.5f, 1); }
static tensor *concat_first(operands o) {
    return ggml_concat(o.ctx, ggml_cont(o.ctx, ggml_transpose(o.ctx, o.a)), ggml_transpose(o.ctx, o.b), 0);
}
static tensor *concat_third(operands o) {
    return ggml_concat(o.ctx, o.a, ggml_view_4d(o.ctx, o.b, 96, 50, 2, 3, o.b->nb[1], o.b->nb[2], o.b->nb[3], 0), 2);
}
static tensor *concat_16_bits(operands o) {
    tensor *half = ggml_cast(o.ctx, o.a, GGML_TYPE_F16);
    return ggml_cast(o.ctx, ggml_concat(o.ctx, half, half, 1), GGML_TYPE_F32);
}
static tensor *repeat(operands o) {
    tensor *x = ggml_view_4d(o.ctx, o.a, 48, 25, 6, 1, o.a->nb[1], o.a->nb[2], o.a->nb[3], 64);
    return ggml_repeat(o.ctx, x, o.b);
}
static tensor *filled(operands o) { return ggml_fill(o.ctx, o.a, -0.3f); }
static tensor *swiglu_oai(operands o) { return ggml_swiglu_oai(o.ctx, o.a, o.b, 1.702f, 0.7f); }
/* Numbers of rows of 96, in order. */
static tensor *gathered(operands o, tensor *x, tensor *numbers) {
    return ggml_get_rows(o.ctx, ggml_reshape_3d(o.ctx, x, 1, 96, 300), numbers);
}
static tensor *router(operands o) { return ggml_view_3d(o.ctx, o.a, 96, 300, 1, o.a->nb[1], o.a->nb[3], 0); }
static tensor *argsort(operands o) {
    return gathered(o, router(o), ggml_argsort(o.ctx, router(o), GGML_SORT_ORDER_ASC));
}
static tensor *argsort_ties(operands o) {
    tensor *x = ggml_clamp(o.ctx, ggml_cont(o.ctx, router(o)), -1, 1);
    return gathered(o, x, ggml_argsort_top_k(o.ctx, x, 9));
}
static tensor *top_k(operands o) {
    tensor *best = gathered(o, router(o), ggml_top_k(o.ctx, router(o), 5));
    return ggml_sum_rows(o.ctx, ggml_reshape_2d(o.ctx, best, 5, 300));
}
static tensor *add_id(operands o) {
    return ggml_add_id(o.ctx, ggml_view_3d(o.ctx, o.a, 96, 1, 50, o.a->nb[1], o.a->nb[1], 0),
                       ggml_view_2d(o.ctx, o.b, 96, 300, o.b->nb[1], 0), ggml_reshape_2d(o.ctx, o.row, 1, 50));
}
static tensor *get_rows(operands o) {
    return ggml_get_rows(o.ctx, ggml_view_2d(o.ctx, o.a, 96, 300, o.a->nb[1], 0), o.row);
}
static tensor *set_rows_of(operands o, enum ggml_type type) {
    tensor *to = ggml_new_tensor_2d(o.ctx, type, 96, 300);
    tensor *set = ggml_set_rows(o.ctx, to, ggml_view_2d(o.ctx, o.a, 96, 50, o.a->nb[1], 384), o.row);
    return ggml_get_rows(o.ctx, set, o.row);
}
static tensor *set_rows(operands o) { return set_rows_of(o, GGML_TYPE_F16); }
static tensor *set_rows_q8(operands o) { return set_rows_of(o, GGML_TYPE_Q8_0); }
static tensor *set_rows_q4(operands o) { return set_rows_of(o, GGML_TYPE_Q4_0); }

static const struct {
    const char *name;
    tensor *(*build)(operands o);
    double most; /* relative difference */
} cases[] = {
    {"ADD", add, 0},
    {"ADD of one row", add_row, 0},
    {"MUL by a part that repeats", mul_part, 0},
    {"SUB, permuted", sub_permuted, 0},
    {"DIV", divide, 0},
    {"SCALE", scale, 0},
    {"SCALE in place", scale_inplace, 0},
    {"SILU", silu, 1e-6},
    {"GELU", gelu, 1e-3},
    {"GELU_ERF", gelu_erf, 1e-6},
    {"GELU_QUICK", gelu_quick, 1e-3},
    {"SIGMOID", sigmoid, 1e-6},
    {"RELU in place", relu_inplace, 0},
    {"SILU of parts of rows", silu_rows, 1e-6},
    {"GEGLU_QUICK", geglu_quick, 1e-3},
    {"GEGLU_ERF, swapped", geglu_erf, 1e-6},
    {"TANH", hyperbolic, 1e-6},
    {"SWIGLU", swiglu, 1e-6},
    {"SWIGLU, swapped", swiglu_swapped, 1e-6},
    {"SWIGLU of two", swiglu_split, 1e-6},
    {"GEGLU of views", geglu_view, 1e-3},
    {"CONT, transposed", transposed, 0},
    {"CPY to 16 bits and back, permuted", widened, 0},
    {"CPY to another shape", reshaped, 0},
    {"RMS_NORM, permuted", rms_norm, 1e-6},
    {"NORM", norm, 1e-6},
    {"SOFT_MAX", soft_max, 1e-6},
    {"SOFT_MAX, mask, ALiBi", soft_max_masked, 1e-6},
    {"ROPE with divisors of any sign", rope_any_sign, 1e-3},
    {"ROPE, divisors", rope_divided, 1e-4},
    {"ROPE", rope, 1e-4},
    {"ROPE of halves, scaled, permuted", rope_halves, 1e-4},
    {"ROPE, YaRN", rope_yarn, 1e-4},
    {"ROPE of float16", rope_half, 1e-3},
    {"ROPE of four positions", mrope, 1e-4},
    {"ROPE of four positions, sections that repeat", mrope_again, 1e-4},
    {"ROPE of four positions, alternating", imrope, 1e-4},
    {"ROPE of four positions, of images", vision, 1e-4},
    {"L2_NORM, permuted", l2_norm, 1e-6},
    {"L2_NORM of short vectors", l2_norm_small, 1e-6},
    {"SOFTPLUS", softplus, 1e-6},
    {"SUM_ROWS, permuted", sum_rows, 1e-6},
    {"CLAMP", clamp, 0},
    {"CONCAT of transposed rows", concat_first, 0},
    {"CONCAT, third axis", concat_third, 0},
    {"CONCAT of float16", concat_16_bits, 0},
    {"REPEAT", repeat, 0},
    {"FILL", filled, 0},
    {"SWIGLU_OAI", swiglu_oai, 1e-6},
    {"ARGSORT", argsort, 0},
    {"ARGSORT, ties", argsort_ties, 0},
    {"TOP_K", top_k, 1e-6},
    {"ADD_ID", add_id, 0},
    {"GET_ROWS", get_rows, 0},
    {"SET_ROWS", set_rows, 0},
    {"SET_ROWS of q8_0", set_rows_q8, 1e-4},
    {"SET_ROWS of q4_0", set_rows_q4, 1e-4},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Computes a case; to: its elements. Negative positions stand for a cache that is shifted. */
static int64_t compute(int i, ggml_backend_t backend, bool negative, float *to) {
    struct ggml_context *ctx = context_of(32);
    operands o = {ctx, ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 96, 50, 6, 3),
                  ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 96, 50, 6, 3), ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 50)};
    tensor *y = cases[i].build(o);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_clear(buffer, 0x7f); /* not what another backend has left there */
    uint64_t seed = 3;
    for (int64_t j = 0; j < ggml_nelements(o.a); j++) {
        ((float *)o.a->data)[j] = 3 * random_float(&seed);
        ((float *)o.b->data)[j] = random_float(&seed);
    }
    for (int j = 0; j < 50; j++)
        ((int32_t *)o.row->data)[j] = negative ? 25 - 7 * j : (7 * j) % 300;
    for (int n = 0; n < ggml_graph_n_nodes(graph); n++)
        check(ggml_backend_supports_op(backend, ggml_graph_node(graph, n)), "not served", cases[i].name);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", cases[i].name);
    const int64_t n = ggml_nelements(y);
    if (to)
        memcpy(to, y->data, ggml_nbytes(y));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return n;
}

static void test_case(int i, ggml_backend_t cpu, ggml_backend_t *fovea, bool negative) {
    enum { MOST = 2 * 96 * 50 * 6 * 3 };
    float *theirs = malloc(MOST * sizeof *theirs), *ours = malloc(MOST * sizeof *ours),
          *other = malloc(MOST * sizeof *other);
    double *reference = malloc(MOST * sizeof *reference);
    const int64_t n = compute(i, cpu, negative, theirs);
    compute(i, fovea[0], negative, ours);
    for (int64_t j = 0; j < n; j++)
        reference[j] = theirs[j];
    check(problem_error(ours, reference, n) <= cases[i].most, "another result than the CPU backend's", cases[i].name);
    for (int t = 1; t < 4; t++) {
        compute(i, fovea[t], negative, other);
        check(!memcmp(ours, other, (size_t)n * sizeof *ours), "bits differ with threads", cases[i].name);
    }
    free(reference);
    free(other);
    free(ours);
    free(theirs);
}

/* SCALE rounds the product before it adds: a contracted one has what the product's rounding lost, 2^-46. */
static void test_contraction(ggml_backend_t backend) {
    struct ggml_context *ctx = context_of(8);
    tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 100),
           *y = ggml_scale_bias(ctx, x, 0x1.000002p0f, -0x1.000004p0f);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    for (int i = 0; i < 100; i++)
        ((float *)x->data)[i] = 0x1.000002p0f;
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "contraction");
    for (int i = 0; i < 100; i++)
        check(((const float *)y->data)[i] == 0, "a product and a sum are rounded once", "contraction");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* Two ROPEs of one backend that differ in divisors alone, some of which are 0, negative or no numbers. */
static void test_divisors(ggml_backend_t cpu, ggml_backend_t backend) {
    enum { DIMS = 16, TOKENS = 5, RESULTS = DIMS * TOKENS };
    static const float divisors[3][DIMS / 2] = {
        {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 9}, {0, -1, -0.0f, 0.5f, -0.25f, NAN, INFINITY, -INFINITY}};
    for (int mode = 0; mode <= 2; mode += 2) {
        struct ggml_context *ctx = context_of(16);
        tensor *x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, DIMS, 1, TOKENS), *d[3], *y[3];
        tensor *positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, TOKENS);
        struct ggml_cgraph *graph = ggml_new_graph(ctx);
        for (int i = 0; i < 3; i++) {
            d[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, DIMS / 2);
            y[i] = ggml_rope_ext(ctx, x, positions, d[i], DIMS, mode, 4096, 10000, 1, 0, 1, 32, 1);
            ggml_build_forward_expand(graph, y[i]);
        }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
        uint64_t seed = 5;
        for (int i = 0; i < RESULTS; i++)
            ((float *)x->data)[i] = random_float(&seed);
        for (int i = 0; i < TOKENS; i++)
            ((int32_t *)positions->data)[i] = 3 * i - 3; /* -3, 0, 3, ... */
        for (int i = 0; i < 3; i++)
            memcpy(d[i]->data, divisors[i], sizeof divisors[i]);
        float theirs[3][RESULTS];
        check(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "error", "divisors");
        for (int i = 0; i < 3; i++)
            memcpy(theirs[i], y[i]->data, sizeof theirs[i]);
        check(memcmp(theirs[0], theirs[1], sizeof theirs[0]) != 0, "the test tells nothing", "divisors");
        for (int round = 0; round < 2; round++) {
            check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "divisors");
            for (int i = 0; i < 3 * RESULTS; i++) {
                const float ours = ((const float *)y[i / RESULTS]->data)[i % RESULTS],
                            other = theirs[i / RESULTS][i % RESULTS];
                check(isnan(other) ? isnan(ours) : fabsf(ours - other) < 1e-5f, "not ggml's result", "divisors");
            }
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
}

/* ggml's allocator gives SOFT_MAX the memory of its input, or of its mask, if nothing else reads it. */
static void test_soft_max_in_place(ggml_backend_t backend) {
    enum { COLUMNS = 600, ROWS = 7 };
    static float usual[COLUMNS * ROWS];
    for (int place = 0; place < 3; place++) {
        struct ggml_context *ctx = context_of(8);
        tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, ROWS);
        tensor *mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, ROWS);
        tensor *y = ggml_soft_max_ext(ctx, x, mask, 0.5f, 0);
        struct ggml_cgraph *graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, y);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
        fill(x, 5);
        fill(mask, 6);
        y->data = place == 1 ? x->data : place == 2 ? mask->data : y->data;
        check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "SOFT_MAX in place");
        if (place == 0)
            memcpy(usual, y->data, sizeof usual);
        check(!memcmp(usual, y->data, sizeof usual), place == 1 ? "over its input" : "over its mask", "SOFT_MAX");
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
}

/* Four equal positions are one: bits of the plain mode, also if those of another token differ. */
static void test_equal_positions(ggml_backend_t backend) {
    enum { DIMS = 32, HEADS = 3, TOKENS = 6, EACH = DIMS * HEADS };
    static int sections[] = {5, 5, 6, 0};
    struct ggml_context *ctx = context_of(16);
    tensor *x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, DIMS, HEADS, TOKENS), *y[3];
    tensor *one = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, TOKENS), *four[2];
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    y[0] = ggml_rope_ext(ctx, x, one, NULL, DIMS, 2, 4096, 10000, 1, 0, 1, 32, 1);
    for (int i = 0; i < 2; i++) {
        four[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 4 * TOKENS);
        y[i + 1] =
            ggml_rope_multi(ctx, x, four[i], NULL, DIMS, sections, GGML_ROPE_TYPE_MROPE, 4096, 10000, 1, 0, 1, 32, 1);
    }
    for (int i = 0; i < 3; i++)
        ggml_build_forward_expand(graph, y[i]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    fill(x, 5);
    for (int i = 0; i < 4 * TOKENS; i++) {
        ((int32_t *)one->data)[i % TOKENS] = 11 * (i % TOKENS);
        ((int32_t *)four[0]->data)[i] = ((int32_t *)four[1]->data)[i] = i < 3 * TOKENS ? 11 * (i % TOKENS) : 0;
    }
    ((int32_t *)four[1]->data)[2 * TOKENS - 1] += 3;
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "equal positions");
    check(!memcmp(y[0]->data, y[1]->data, ggml_nbytes(x)), "other bits than of one", "equal positions");
    check(!memcmp(y[0]->data, y[2]->data, ggml_nbytes(x) - EACH * sizeof(float)), "other bits in a batch",
          "equal positions");
    check(memcmp((float *)y[0]->data + (TOKENS - 1) * EACH, (float *)y[2]->data + (TOKENS - 1) * EACH,
                 EACH * sizeof(float)) != 0,
          "positions are not read", "equal positions");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

int main(void) {
    static const int threads[] = {1, 2, 4, 8};
    ggml_backend_load_all();
    ggml_backend_reg_t reg = load_fovea();
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL), fovea[4];
    for (int t = 0; t < 4; t++)
        fovea[t] = make_fovea(reg, threads[t]);
    for (int i = 0; i < CASES; i++) {
        test_case(i, cpu, fovea, false);
        if (!strncmp(cases[i].name, "ROPE", 4))
            test_case(i, cpu, fovea, true);
    }
    test_contraction(fovea[1]);
    test_divisors(cpu, fovea[1]);
    test_soft_max_in_place(fovea[1]);
    test_equal_positions(fovea[1]);
    for (int t = 0; t < 4; t++)
        ggml_backend_free(fovea[t]);
    ggml_backend_free(cpu);
    return end();
}
