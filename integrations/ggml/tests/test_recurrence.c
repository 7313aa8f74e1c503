/* GATED_DELTA_NET, SSM_SCAN, SSM_CONV, and what makes their operands: results against those of ggml's CPU backend, with
 * equal bits for any number of threads; snapshots, states out of order, views; what is left to ggml. */
#include "placed.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ggml_tensor tensor;
typedef struct shape {
    const char *name;
    tensor *(*build)(struct ggml_context *ctx, const struct shape *s);
    int64_t channels, heads, groups, rows, tokens, sequences, slots;
    bool own_rates;     /* the delta rule: a gate for each channel; scans: Mamba 1 */
    int32_t ids[4];     /* of states, for scans */
    bool left, refused; /* ggml keeps it; an error */
} shape;

static tensor *input(struct ggml_context *ctx, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    return ggml_new_tensor_4d(ctx, GGML_TYPE_F32, n0, n1, n2, n3);
}

/* Heads of a token, from channel `first` on of rows that hold more. */
static tensor *part(struct ggml_context *ctx, tensor *all, int64_t n, int64_t heads, int64_t first) {
    return ggml_view_4d(ctx, all, n, heads, all->ne[1], all->ne[2], (size_t)n * sizeof(float), all->nb[1], all->nb[2],
                        (size_t)first * sizeof(float));
}

static tensor *delta(struct ggml_context *ctx, const shape *s) {
    const int64_t n = s->channels, keys = n * s->groups;
    tensor *all = input(ctx, 2 * keys + n * s->heads, s->tokens, s->sequences, 1);
    tensor *q = ggml_l2_norm(ctx, part(ctx, all, n, s->groups, 0), 1e-6f);
    tensor *k = ggml_l2_norm(ctx, part(ctx, all, n, s->groups, keys), 1e-6f);
    tensor *gate = input(ctx, s->own_rates ? n : 1, s->heads, s->tokens, s->sequences);
    tensor *beta = ggml_sigmoid(ctx, input(ctx, 1, s->heads, s->tokens, s->sequences));
    return ggml_gated_delta_net(ctx, q, k, part(ctx, all, n, s->heads, 2 * keys),
                                ggml_neg(ctx, ggml_softplus(ctx, gate)), beta, input(ctx, n, n, s->heads, s->sequences),
                                s->slots);
}

static tensor *scan(struct ggml_context *ctx, const shape *s) {
    const int64_t inner = s->channels * s->heads, each = s->groups * s->rows;
    tensor *all = input(ctx, inner + 2 * each, s->tokens, s->sequences, 1);
    tensor *a = input(ctx, s->own_rates ? s->rows : 1, s->heads, 1, 1);
    return ggml_ssm_scan(ctx, input(ctx, s->rows, s->channels, s->heads, s->sequences + 2),
                         part(ctx, all, s->channels, s->heads, 0), input(ctx, s->heads, s->tokens, s->sequences, 1),
                         ggml_neg(ctx, ggml_exp(ctx, a)), part(ctx, all, s->rows, s->groups, inner),
                         part(ctx, all, s->rows, s->groups, inner + each),
                         ggml_new_tensor_1d(ctx, GGML_TYPE_I32, s->sequences), s->slots);
}

/* rows: taps. */
static tensor *convolve(struct ggml_context *ctx, const shape *s) {
    return ggml_ssm_conv(ctx, input(ctx, s->rows - 1 + s->tokens, s->channels, s->sequences, 1),
                         input(ctx, s->rows, s->channels, 1, 1));
}

static const shape shapes[] = {
    {"delta rule", delta, 128, 4, 2, 0, 37, 2, 1, false, {0}, false, false},
    {"delta rule, one token", delta, 128, 8, 8, 0, 1, 1, 1, false, {0}, false, false},
    {"delta rule, channels with gates", delta, 64, 3, 3, 0, 19, 1, 1, true, {0}, false, false},
    {"delta rule, snapshots", delta, 32, 4, 2, 0, 9, 3, 4, false, {0}, false, false},
    {"delta rule, more slots than tokens", delta, 32, 4, 4, 0, 2, 2, 5, true, {0}, false, false},
    {"delta rule, odd channels", delta, 13, 2, 1, 0, 5, 1, 1, false, {0}, false, false},
    {"scan", scan, 64, 6, 2, 128, 21, 2, 1, false, {0, 1}, false, false},
    {"scan, states out of order", scan, 64, 4, 4, 16, 5, 3, 1, false, {0, 4, 0}, false, false},
    {"scan, snapshots", scan, 32, 4, 1, 32, 9, 2, 4, false, {1, 2}, false, false},
    {"scan, snapshots out of order", scan, 32, 4, 1, 32, 3, 2, 5, false, {3, 1}, false, false},
    {"scan, Mamba 1", scan, 1, 96, 1, 16, 21, 2, 1, true, {1, 2}, false, false},
    {"scan, Mamba 1, states out of order", scan, 1, 96, 1, 16, 1, 3, 1, true, {2, 1, 0}, false, false},
    {"scan, a state that is absent", scan, 64, 4, 4, 16, 5, 2, 1, false, {0, 4}, false, true},
    {"scan, a negative number", scan, 64, 4, 4, 16, 5, 2, 1, false, {-1, 0}, false, true},
    {"scan, rates of rows and heads of channels", scan, 2, 48, 1, 16, 5, 1, 1, true, {0}, true, false},
    {"scan, Mamba 1 with groups", scan, 1, 96, 2, 16, 5, 1, 1, true, {0}, true, false},
    {"convolution", convolve, 200, 0, 0, 4, 33, 2, 0, false, {0}, false, false},
    {"convolution, one token", convolve, 1024, 0, 0, 4, 1, 1, 0, false, {0}, false, false},
    {"convolution, one tap", convolve, 24, 0, 0, 1, 7, 1, 0, false, {0}, false, false},
    {"convolution, 65 taps", convolve, 24, 0, 0, 65, 7, 1, 0, false, {0}, true, false},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Random numbers, and ids. */
static void fill_leaves(struct ggml_context *ctx, const shape *s) {
    uint64_t seed = 1;
    for (tensor *t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (t->op == GGML_OP_NONE && t->type == GGML_TYPE_F32)
            fill(t, seed++);
        if (t->type == GGML_TYPE_I32)
            memcpy(t->data, s->ids, ggml_nbytes(t));
    }
}

/* Computes a shape; its result, to be freed, or NULL after an error that was wanted. */
static float *compute(const shape *s, ggml_backend_t backend, bool ours, int64_t *n) {
    struct ggml_context *ctx = context_of(32);
    tensor *y = s->build(ctx, s);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_clear(buffer, 0);
    fill_leaves(ctx, s);
    float *to = NULL;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++)
        if (ours)
            check(ggml_backend_supports_op(backend, ggml_graph_node(graph, i)) !=
                      (s->left && ggml_graph_node(graph, i) == y),
                  s->left ? "served" : "not served", s->name);
    if (!ours || !s->left) {
        const enum ggml_status status = ggml_backend_graph_compute(backend, graph);
        check((status == GGML_STATUS_SUCCESS) == !s->refused, s->refused ? "no error" : "an error", s->name);
        *n = ggml_nelements(y);
        to = malloc(ggml_nbytes(y));
        memcpy(to, y->data, ggml_nbytes(y));
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return to;
}

static void test_shape(const shape *s, ggml_backend_t cpu, ggml_backend_t *fovea) {
    int64_t n = 0;
    float *first = compute(s, fovea[0], true, &n);
    float *theirs = s->left || s->refused ? NULL : compute(s, cpu, false, &n);
    if (theirs) {
        double *reference = malloc((size_t)n * sizeof *reference);
        for (int64_t i = 0; i < n; i++)
            reference[i] = (double)theirs[i];
        check(problem_error(first, reference, n) < 2e-6, "another result than the CPU backend's", s->name);
        free(reference);
    }
    for (int t = 1; t < 4 && theirs; t++) {
        float *other = compute(s, fovea[t], true, &n);
        check(!memcmp(first, other, (size_t)n * sizeof *other), "bits differ with threads", s->name);
        free(other);
    }
    free(theirs);
    free(first);
}

int main(void) {
    ggml_backend_reg_t reg = begin();
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL), fovea[4];
    for (int t = 0; t < 4; t++)
        fovea[t] = make_fovea(reg, 1 << t);
    for (int i = 0; i < SHAPES; i++)
        test_shape(&shapes[i], cpu, fovea);
    for (int t = 0; t < 4; t++)
        ggml_backend_free(fovea[t]);
    ggml_backend_free(cpu);
    return end();
}
