/* Products with weights, which each backend packs or repacks in a buffer type of its own. A graph has several, each
 * with weights of its own, and graphs follow one another: weights come from memory or the last cache, as a model's
 * do. With experts, MUL_MAT_ID: each row multiplies weights of CHOSEN of them. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MATRICES = 512, MOST_PRODUCTS = 64, EXPERTS = 64, CHOSEN = 8 };

typedef struct matrices {
    struct ggml_context *ctx;
    struct ggml_tensor *tensors[MOST_MATRICES];
    ggml_backend_buffer_t buffer;
    int count;
} matrices;

typedef struct graphs {
    struct ggml_context *ctx;
    struct ggml_cgraph *each[MOST_MATRICES];
    ggml_backend_buffer_t buffer;
    int count;
} graphs;

static struct ggml_tensor *product(struct ggml_context *ctx, struct ggml_tensor *w, int64_t rows,
                                   struct ggml_tensor *x) {
    if (w->ne[2] == 1)
        return ggml_mul_mat(ctx, w, x ? x : ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], rows));
    if (!x)
        x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], rows);
    return ggml_mul_mat_id(ctx, w, ggml_reshape_3d(ctx, x, w->ne[0], 1, rows),
                           ggml_new_tensor_2d(ctx, GGML_TYPE_I32, CHOSEN, rows));
}

/* The first of the types in which the device multiplies these weights. */
static ggml_backend_buffer_type_t type_for(ggml_backend_t backend, ggml_backend_buffer_type_t *types,
                                           struct ggml_tensor *w) {
    struct ggml_context *ctx =
        ggml_init((struct ggml_init_params){.mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true});
    struct ggml_tensor *y = product(ctx, w, 1, NULL);
    bool served = false;
    for (; *types && !served; types += !served) {
        w->buffer = ggml_backend_buft_alloc_buffer(*types, 0);
        served = ggml_backend_dev_supports_op(ggml_backend_get_device(backend), y);
        ggml_backend_buffer_free(w->buffer);
        w->buffer = NULL;
    }
    ggml_free(ctx);
    return *types ? *types : ggml_backend_cpu_buffer_type();
}

static matrices place(const bench *b, ggml_backend_t backend, ggml_backend_buffer_type_t *types, enum ggml_type type,
                      int64_t in, int64_t out, const void *bytes) {
    const int64_t experts = b->experts ? EXPERTS : 1;
    const double fitting = b->weight_bytes / (double)(ggml_row_size(type, in) * (size_t)(out * experts));
    matrices m = {.count = fitting < MOST_MATRICES ? (int)fitting : MOST_MATRICES};
    m.ctx = ggml_init((struct ggml_init_params){.mem_size = MOST_MATRICES * ggml_tensor_overhead(), .no_alloc = true});
    for (int i = 0; i < m.count; i++)
        m.tensors[i] = ggml_new_tensor_3d(m.ctx, type, in, out, experts);
    m.buffer = ggml_backend_alloc_ctx_tensors_from_buft(m.ctx, type_for(backend, types, m.tensors[0]));
    ggml_backend_buffer_set_usage(m.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (int i = 0; i < m.count; i++)
        ggml_backend_tensor_set(m.tensors[i], bytes, 0, ggml_nbytes(m.tensors[i]));
    return m;
}

static graphs multiply(const bench *b, const matrices *m, int64_t rows) {
    const int64_t in = m->tensors[0]->ne[0], out = m->tensors[0]->ne[1];
    const int64_t each = b->experts ? CHOSEN * rows : rows;
    const int worth = (int)(b->graph_operations / (2 * (double)(in * out * each)));
    const int most = m->count < MOST_PRODUCTS ? m->count : MOST_PRODUCTS, products = worth < 1      ? 1
                                                                                     : worth < most ? worth
                                                                                                    : most;
    graphs g = {.count = b->experts ? EXPERTS / CHOSEN : m->count / products}; /* other experts in each */
    g.ctx = ggml_init(
        (struct ggml_init_params){.mem_size = (3 * MOST_MATRICES + 1) * ggml_tensor_overhead() +
                                              (size_t)g.count * ggml_graph_overhead_custom(4 * MOST_PRODUCTS, false),
                                  .no_alloc = true});
    struct ggml_tensor *x = ggml_new_tensor_2d(g.ctx, GGML_TYPE_F32, in, rows);
    for (int i = 0; i < g.count; i++) {
        g.each[i] = ggml_new_graph_custom(g.ctx, 4 * MOST_PRODUCTS, false);
        for (int j = 0; j < products; j++)
            ggml_build_forward_expand(g.each[i], product(g.ctx, m->tensors[(i * products + j) % m->count], rows, x));
    }
    g.buffer = ggml_backend_alloc_ctx_tensors_from_buft(g.ctx, ggml_backend_cpu_buffer_type());
    uint64_t seed = 5;
    for (int64_t i = 0; i < in * rows; i++)
        ((float *)x->data)[i] = random_float(&seed);
    int64_t next = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(g.ctx); t; t = ggml_get_next_tensor(g.ctx, t))
        for (int64_t i = 0; t->type == GGML_TYPE_I32 && i < ggml_nelements(t); i++, next++)
            ((int32_t *)t->data)[i] = (int32_t)((next * 7 + next / CHOSEN * 13) % EXPERTS);
    return g;
}

static void *random_weights(enum ggml_type type, int64_t in, int64_t out) {
    uint64_t seed = 3;
    float *numbers = malloc((size_t)(in * out) * sizeof *numbers);
    for (int64_t i = 0; i < in * out; i++)
        numbers[i] = random_float(&seed);
    if (type == GGML_TYPE_F32)
        return numbers;
    void *bytes = malloc(ggml_row_size(type, in) * (size_t)out);
    ggml_quantize_chunk(type, numbers, bytes, 0, out, in, NULL);
    free(numbers);
    return bytes;
}

/* The CPU backend's own, for repacked weights, then NULL. */
static ggml_backend_buffer_type_t *types_of(ggml_backend_t cpu) {
    static ggml_backend_buffer_type_t none[] = {NULL};
    ggml_backend_dev_t device = ggml_backend_get_device(cpu);
    ggml_backend_dev_get_extra_bufts_t extra;
    void *const address =
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    memcpy(&extra, &address, sizeof extra);
    return extra && extra(device) ? extra(device) : none;
}

void bench_product(const bench *b, enum ggml_type type, int64_t in, int64_t out, const int64_t *rows, int count,
                   bench_done *done, void *arg) {
    ggml_backend_buffer_type_t packed[] = {ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(b->reg, 1)), NULL};
    void *bytes = random_weights(type, in, b->experts ? EXPERTS * out : out);
    matrices m[] = {place(b, b->cpu, types_of(b->cpu), type, in, out, bytes),
                    place(b, b->fovea, packed, type, in, out, bytes)};
    for (int r = 0; r < count; r++) {
        graphs g[] = {multiply(b, &m[0], rows[r]), multiply(b, &m[1], rows[r])};
        const bench_result result = bench_measure(b, &(bench_side){.backend = b->cpu, .graphs = g[0].each},
                                                  &(bench_side){.backend = b->fovea, .graphs = g[1].each}, g[0].count);
        done(arg, rows[r], ggml_backend_buffer_name(m[0].buffer), &result);
        for (int i = 0; i < 2; i++) {
            ggml_backend_buffer_free(g[i].buffer);
            ggml_free(g[i].ctx);
        }
    }
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(m[i].buffer);
        ggml_free(m[i].ctx);
    }
    free(bytes);
}

static void print(void *shape, int64_t rows, const char *buffer, const bench_result *result) {
    printf("%s, rows %3lld: %-10s ", (const char *)shape, (long long)rows, buffer);
    bench_print(result);
}

void bench_products(const bench *b) {
    static const enum ggml_type types[] = {GGML_TYPE_F32,   GGML_TYPE_F16,    GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_0,  GGML_TYPE_Q4_1,   GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                           GGML_TYPE_MXFP4, GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
                                           GGML_TYPE_Q6_K};
    static const int64_t sizes[][2] = {{768, 256}, {2048, 2048}, {2048, 8192}, {2048, 768}, {768, 2048}},
                         rows[] = {1, 2, 4, 8, 16, 64, 256, 512};
    enum { SIZES = sizeof sizes / sizeof sizes[0], OF_EXPERTS = 2, ROWS = sizeof rows / sizeof rows[0] };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = b->experts ? SIZES - OF_EXPERTS : 0; s < (b->experts ? SIZES : SIZES - OF_EXPERTS); s++) {
            if (b->type != GGML_TYPE_COUNT && b->type != types[t])
                continue;
            char shape[64];
            snprintf(shape, sizeof shape, "%-5s %4lld to %4lld", ggml_type_name(types[t]), (long long)sizes[s][0],
                     (long long)sizes[s][1]);
            bench_product(b, types[t], sizes[s][0], sizes[s][1], rows, b->experts ? ROWS : ROWS - 1, print, shape);
        }
}
