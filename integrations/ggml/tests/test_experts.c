/* MUL_MAT_ID: each row has the bits of MUL_MAT with its expert's weights and that row alone, for any number of threads
 * and tokens and wherever the weights are; ids within longer rows; numbers of experts, and of rows, that are none.
 * Routers of NaN. */
#include "placed.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ggml_tensor tensor;
typedef struct shape {
    const char *name;
    enum ggml_type type;
    int64_t in, out, experts, k, of_x, tokens, ids; /* of_x: rows of x for a token; ids: in a row that has k of them */
    bool left, refused;                             /* ggml keeps it; an error */
} shape;

static const shape shapes[] = {
    {"q4_K", GGML_TYPE_Q4_K, 256, 96, 16, 4, 1, 33, 16, false, false},
    {"q4_K, one token", GGML_TYPE_Q4_K, 512, 200, 8, 3, 1, 1, 8, false, false},
    {"q6_K, rows of their own", GGML_TYPE_Q6_K, 256, 65, 8, 5, 5, 9, 5, false, false},
    {"mxfp4", GGML_TYPE_MXFP4, 96, 130, 6, 4, 4, 70, 6, false, false},
    {"q8_0, all experts", GGML_TYPE_Q8_0, 64, 40, 7, 7, 1, 12, 7, false, false},
    {"bf16", GGML_TYPE_BF16, 100, 33, 5, 2, 2, 21, 4, false, false},
    {"f16, one expert", GGML_TYPE_F16, 64, 48, 1, 1, 1, 5, 1, false, false},
    {"f32", GGML_TYPE_F32, 67, 45, 9, 2, 1, 40, 9, false, false},
    {"an expert that is absent", GGML_TYPE_F32, 32, 16, 4, 2, 1, 3, 2, false, true},
    {"q3_K", GGML_TYPE_Q3_K, 256, 32, 4, 2, 1, 3, 2, true, false},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], THREADS = 4 };

static int32_t chosen(const shape *s, int64_t token, int64_t slot) {
    const int64_t number = (5 * token + 3 * slot + token / 4) % s->experts;
    return (int32_t)(s->refused && slot == 1 ? s->experts : number);
}

typedef struct tensors {
    struct ggml_context *placed, *ctx;
    ggml_backend_buffer_t weights, buffer;
    tensor *w, *x, *y, *rows; /* rows: each by MUL_MAT, in the order of y */
} tensors;

static tensor *row_alone(const tensors *t, const shape *s, int64_t token, int64_t slot) {
    tensor *w = ggml_view_2d(t->ctx, t->w, s->in, s->out, t->w->nb[1], (size_t)chosen(s, token, slot) * t->w->nb[2]);
    const size_t at = (size_t)token * t->x->nb[2] + (size_t)(slot % s->of_x) * t->x->nb[1];
    return ggml_mul_mat(t->ctx, w, ggml_view_1d(t->ctx, t->x, s->in, at));
}

static tensors make(const shape *s, ggml_backend_buffer_type_t type, bool rows) {
    tensors t = {.placed = context_of(1), .ctx = context_of(6 + (rows ? 4 * (int)(s->k * s->tokens) : 0))};
    t.w = ggml_new_tensor_3d(t.placed, s->type, s->in, s->out, s->experts);
    t.x = ggml_new_tensor_3d(t.ctx, GGML_TYPE_F32, s->in, s->of_x, s->tokens);
    tensor *ids = ggml_new_tensor_2d(t.ctx, GGML_TYPE_I32, s->ids, s->tokens);
    t.y = ggml_mul_mat_id(t.ctx, t.w, t.x, ggml_view_2d(t.ctx, ids, s->k, s->tokens, ids->nb[1], 0));
    for (int64_t i = 0; rows && i < s->k * s->tokens; i++) {
        tensor *row = row_alone(&t, s, i / s->k, i % s->k);
        t.rows = i ? t.rows : row;
    }
    t.weights = place(t.placed, type);
    t.buffer = ggml_backend_alloc_ctx_tensors_from_buft(t.ctx, ggml_backend_cpu_buffer_type());
    void *bytes = weights_of(s->type, s->in, s->out * s->experts, 3);
    ggml_backend_tensor_set(t.w, bytes, 0, ggml_nbytes(t.w));
    free(bytes);
    fill(t.x, 5);
    memset(t.y->data, 0x5a, ggml_nbytes(t.y));
    for (int64_t i = 0; i < s->ids * s->tokens; i++)
        ((int32_t *)ids->data)[i] = i % s->ids < s->k ? chosen(s, i / s->ids, i % s->ids) : -1;
    return t;
}

static void release(tensors *t) {
    ggml_backend_buffer_free(t->weights);
    ggml_backend_buffer_free(t->buffer);
    ggml_free(t->placed);
    ggml_free(t->ctx);
}

static float *rows_alone(const shape *s, ggml_backend_t backend) {
    tensors t = make(s, ggml_backend_cpu_buffer_type(), true);
    float *y = malloc(ggml_nbytes(t.y));
    int64_t done = 0;
    for (tensor *row = t.rows; row; row = ggml_get_next_tensor(t.ctx, row)) {
        if (row->op != GGML_OP_MUL_MAT)
            continue;
        struct ggml_context *ctx = context_of(1);
        struct ggml_cgraph *graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, row);
        check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "MUL_MAT", s->name);
        memcpy(y + done++ * s->out, row->data, ggml_nbytes(row));
        ggml_free(ctx);
    }
    check(done == s->k * s->tokens, "rows are missing", s->name);
    release(&t);
    return y;
}

static void compute(const shape *s, ggml_backend_t backend, ggml_backend_buffer_type_t type, const float *want) {
    tensors t = make(s, type, false);
    struct ggml_cgraph *graph = ggml_new_graph(t.ctx);
    ggml_build_forward_expand(graph, t.y);
    const bool plain = type == ggml_backend_cpu_buffer_type();
    if (plain)
        check(ggml_backend_supports_op(backend, t.y) != s->left, s->left ? "served" : "not served", s->name);
    if (!s->left) {
        const enum ggml_status status = ggml_backend_graph_compute(backend, graph);
        check((status == GGML_STATUS_SUCCESS) == !s->refused, s->refused ? "no error" : "an error", s->name);
        for (size_t i = 0; s->refused && i < ggml_nbytes(t.y); i++)
            check(((char *)t.y->data)[i] == 0x5a, "a refused product has written", s->name);
        check(!want || !memcmp(want, t.y->data, ggml_nbytes(t.y)), "other bits than those of rows alone", s->name);
    }
    release(&t);
}

/* Numbers are sorted by their places where they are equal, a NaN behind all; it is
 * clamped to the most; rows longer than those of routers are left to ggml. */
static void test_nan(ggml_backend_t backend) {
    static const float given[] = {2, NAN, -3, NAN, 5, 2}, clamped[] = {1, 1, -1, 1, 1, 1};
    static const int32_t order[][6] = {{2, 0, 5, 4, 1, 3}, {4, 0, 5, 2, 1, 3}};
    struct ggml_context *ctx = context_of(8);
    tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 6), *y[3], *row = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4097);
    y[0] = ggml_argsort(ctx, x, GGML_SORT_ORDER_ASC);
    y[1] = ggml_argsort(ctx, x, GGML_SORT_ORDER_DESC);
    y[2] = ggml_clamp(ctx, ggml_cont(ctx, x), -1, 1);
    check(!ggml_backend_supports_op(backend, ggml_argsort(ctx, row, GGML_SORT_ORDER_ASC)), "served", "a long row");
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    for (int i = 0; i < 3; i++)
        ggml_build_forward_expand(graph, y[i]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    memcpy(x->data, given, sizeof given);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "NaN");
    for (int i = 0; i < 2; i++)
        check(!memcmp(y[i]->data, order[i], sizeof order[i]), "another order", "NaN");
    check(!memcmp(y[2]->data, clamped, sizeof clamped), "clamped to others", "NaN");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* A row that is not there is an error, and nothing beyond the tensor is read. */
static void test_out_of_range(ggml_backend_t backend) {
    struct ggml_context *ctx = context_of(8);
    tensor *a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 4), *row = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_get_rows(ctx, a, row));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    *(int32_t *)row->data = 4;
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_FAILED, "no error", "a row out of range");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

int main(void) {
    ggml_backend_reg_t reg = begin();
    ggml_backend_buffer_type_t packed = ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1));
    ggml_backend_t fovea[THREADS];
    for (int t = 0; t < THREADS; t++)
        fovea[t] = make_fovea(reg, 1 << t);
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        float *want = s->left || s->refused ? NULL : rows_alone(s, fovea[0]);
        for (int t = 0; t < THREADS; t++) {
            compute(s, fovea[t], ggml_backend_cpu_buffer_type(), want);
            compute(s, fovea[t], packed, want);
        }
        free(want);
    }
    test_nan(fovea[0]);
    test_out_of_range(fovea[1]);
    for (int t = 0; t < THREADS; t++)
        ggml_backend_free(fovea[t]);
    return end();
}
