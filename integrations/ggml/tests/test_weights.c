/* The buffer type of packed weights, and MUL_MAT: results against float64, with equal bits for any number of threads
 * and wherever the weights are; bytes that come back; what the scheduler does; memory. Where weights are placed, and
 * what else uses them: test_placed.c. */
#define _POSIX_C_SOURCE 200809L
#include "placed.h"
#include "problem.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static ggml_backend_reg_t reg;
static ggml_backend_buffer_type_t packed_type;

/* Result of MUL_MAT on plain tensors, in float64: [M][N][rows][out]. */
static void reference(const struct ggml_tensor *w, const char *bytes, const struct ggml_tensor *x, double *y) {
    const int64_t in = w->ne[0], out = w->ne[1], rows = x->ne[1];
    float *row = malloc((size_t)in * sizeof *row);
    for (int64_t c = 0; c < x->ne[3]; c++)
        for (int64_t b = 0; b < x->ne[2]; b++)
            for (int64_t o = 0; o < out; o++) {
                const int64_t i2 = b / (x->ne[2] / w->ne[2]), i3 = c / (x->ne[3] / w->ne[3]);
                const char *from = bytes + (size_t)o * w->nb[1] + (size_t)i2 * w->nb[2] + (size_t)i3 * w->nb[3];
                if (w->type == GGML_TYPE_F32)
                    memcpy(row, from, (size_t)in * sizeof *row);
                else
                    ggml_get_type_traits(w->type)->to_float(from, row, in);
                for (int64_t r = 0; r < rows; r++) {
                    const float *v = (const float *)(const void *)((const char *)x->data + (size_t)r * x->nb[1] +
                                                                   (size_t)b * x->nb[2] + (size_t)c * x->nb[3]);
                    double sum = 0;
                    for (int64_t i = 0; i < in; i++)
                        sum += (double)row[i] * (double)v[i];
                    y[((c * x->ne[2] + b) * rows + r) * out + o] = sum;
                }
            }
    free(row);
}

typedef struct map {
    const char *name;
    enum ggml_type type;
    int64_t in, out, n, m, rows, N, M;
    double most; /* relative error */
    bool permuted;
} map;

static const map maps[] = {
    {"f32", GGML_TYPE_F32, 67, 45, 1, 1, 5, 1, 1, 1e-6, false},
    {"f16", GGML_TYPE_F16, 320, 128, 1, 1, 70, 1, 1, 1e-6, false},
    {"bf16", GGML_TYPE_BF16, 100, 33, 1, 1, 1, 1, 1, 1e-6, false},
    {"q8_0", GGML_TYPE_Q8_0, 576, 192, 1, 1, 70, 1, 1, 2e-4, false},
    {"q4_0", GGML_TYPE_Q4_0, 64, 500, 1, 1, 9, 1, 1, 2e-4, false},
    {"q4_1", GGML_TYPE_Q4_1, 576, 1536, 1, 1, 1, 1, 1, 2e-4, false},
    {"q5_0", GGML_TYPE_Q5_0, 96, 65, 1, 1, 5, 1, 1, 2e-4, false},
    {"q5_1", GGML_TYPE_Q5_1, 160, 200, 1, 1, 2, 1, 1, 2e-4, false},
    {"mxfp4", GGML_TYPE_MXFP4, 96, 130, 1, 1, 3, 1, 1, 2e-4, false},
    {"iq4_nl", GGML_TYPE_IQ4_NL, 64, 96, 1, 1, 9, 1, 1, 2e-4, false},
    {"q4_K", GGML_TYPE_Q4_K, 512, 300, 1, 1, 33, 1, 1, 2e-4, false},
    {"q5_K", GGML_TYPE_Q5_K, 256, 31, 1, 1, 3, 1, 1, 2e-4, false},
    {"q6_K", GGML_TYPE_Q6_K, 768, 257, 1, 1, 130, 1, 1, 2e-4, false},
    {"one output", GGML_TYPE_F32, 32, 1, 1, 1, 4, 1, 1, 1e-6, false},
    {"several matrices, rows that share them", GGML_TYPE_F16, 64, 40, 2, 3, 5, 4, 6, 1e-6, false},
    {"rows of many sequences, permuted", GGML_TYPE_Q4_1, 64, 40, 1, 1, 5, 4, 3, 2e-4, true},
    {"no rows", GGML_TYPE_Q8_0, 64, 40, 1, 1, 0, 1, 1, 1, false},
};
enum { MAPS = sizeof maps / sizeof maps[0], WAYS = 5 };

/* Ways to write bytes: at once, in pieces, in pieces from the last one on, from an odd address, twice. */
static void write_weights(struct ggml_tensor *w, const char *bytes, int way) {
    const size_t size = ggml_nbytes(w), piece = size / 3 + 1;
    char *odd = malloc(size + 1);
    memcpy(odd + 1, bytes, size);
    if (way == 4)
        ggml_backend_tensor_memset(w, 1, 0, size);
    if (way == 0 || way == 4)
        ggml_backend_tensor_set(w, bytes, 0, size);
    for (size_t at = 0; way == 1 && at < size; at += piece)
        ggml_backend_tensor_set(w, bytes + at, at, size - at < piece ? size - at : piece);
    for (size_t end = size; way == 2 && end > 0; end -= end < piece ? end : piece)
        ggml_backend_tensor_set(w, bytes + (end < piece ? 0 : end - piece), end < piece ? 0 : end - piece,
                                end < piece ? end : piece);
    if (way == 3)
        ggml_backend_tensor_set(w, odd + 1, 0, size);
    free(odd);
}

static bool returned(const struct ggml_tensor *w, const char *bytes) {
    const size_t size = ggml_nbytes(w), at = size / 3, count = size / 2;
    char *whole = malloc(size), *part = calloc(2, size), none = 0;
    ggml_backend_tensor_get(w, whole, 0, size);
    ggml_backend_tensor_get(w, part, at, count);
    ggml_backend_tensor_get(w, part + size, 0, count);
    bool same = !memcmp(whole, bytes, size) && !memcmp(part, bytes + at, count) && !memcmp(part + size, bytes, count);
    for (size_t i = count; i < size; i++)
        same = same && part[i] == none && part[size + i] == none;
    free(whole);
    free(part);
    return same;
}

static void test_map(const map *p, const char *bytes, ggml_backend_buffer_type_t type, int way, float *first) {
    static const int threads[] = {1, 2, 4, 8};
    struct ggml_context *ctx = context_of(8), *placed = context_of(2);
    struct ggml_tensor *w = ggml_new_tensor_4d(placed, p->type, p->in, p->out, p->n, p->m);
    struct ggml_tensor *x =
        p->permuted ? ggml_permute(ctx, ggml_new_tensor_4d(ctx, GGML_TYPE_F32, p->in, p->N, p->rows, p->M), 0, 2, 1, 3)
                    : ggml_new_tensor_4d(ctx, GGML_TYPE_F32, p->in, p->rows, p->N, p->M);
    struct ggml_tensor *y = ggml_mul_mat(ctx, w, x);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(placed, type);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_set_usage(weights,
                                  way == WAYS ? GGML_BACKEND_BUFFER_USAGE_ANY : GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    write_weights(w, bytes, way == WAYS ? 0 : way);
    fill(p->permuted ? x->view_src : x, 7);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    float none, *const result = y->data ? y->data : &none; /* empty tensors have no memory */
    for (int t = 0; t < 4; t++) {
        ggml_backend_t backend = make_fovea(reg, threads[t]);
        memset(result, 0xff, ggml_nbytes(y));
        check(ggml_backend_supports_op(backend, y), "not served", p->name);
        check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", p->name);
        if (isnan(first[0])) {
            const int64_t n = ggml_nelements(y);
            double *exact = malloc((size_t)(n + 1) * sizeof *exact);
            reference(w, bytes, x, exact);
            check(n == 0 || problem_error(result, exact, n) < p->most, "error against float64", p->name);
            memcpy(first, result, ggml_nbytes(y));
            free(exact);
        }
        check(!memcmp(first, result, ggml_nbytes(y)), "bits differ with threads or the place of weights", p->name);
        ggml_backend_free(backend);
    }
    check(returned(w, bytes), "other bytes come back", p->name);
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(weights);
    ggml_free(placed);
    ggml_free(ctx);
}

static void test_maps(void) {
    for (int i = 0; i < MAPS; i++) {
        const map *p = &maps[i];
        char *bytes = weights_of(p->type, p->in, p->out * p->n * p->m, 11);
        float *first = malloc((size_t)(p->out * p->rows * p->N * p->M + 1) * sizeof *first);
        first[0] = NAN;
        for (int way = 0; way <= WAYS; way++)
            test_map(p, bytes, packed_type, way, first);
        test_map(p, bytes, ggml_backend_cpu_buffer_type(), 0, first);
        free(first);
        free(bytes);
    }
}

/* Rows 3 to 19 of a matrix are those of the whole. */
static void test_view(void) {
    struct ggml_context *ctx = context_of(8), *placed = context_of(4);
    struct ggml_tensor *w = ggml_new_tensor_2d(placed, GGML_TYPE_Q4_0, 64, 40);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 5), *whole = ggml_mul_mat(ctx, w, x);
    struct ggml_tensor *part = ggml_mul_mat(ctx, ggml_view_2d(placed, w, 64, 17, w->nb[1], 3 * w->nb[1]), x);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(placed, packed_type);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    char *bytes = weights_of(GGML_TYPE_Q4_0, 64, 40, 3);
    ggml_backend_tensor_set(w, bytes, 0, ggml_nbytes(w));
    fill(x, 9);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, whole);
    ggml_build_forward_expand(graph, part);
    ggml_backend_t backend = make_fovea(reg, 2);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "view");
    bool same = true;
    for (int r = 0; r < 5; r++)
        same = same && !memcmp((float *)part->data + r * 17, (float *)whole->data + r * 40 + 3, 17 * sizeof(float));
    check(same, "other bits", "view");
    ggml_backend_buffer_clear(weights, 0);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "error", "cleared");
    float zero = 0;
    for (int i = 0; i < 200; i++)
        zero += fabsf(((float *)whole->data)[i]);
    check(zero == 0, "weights are left", "cleared");
    ggml_backend_free(backend);
    free(bytes);
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(weights);
    ggml_free(placed);
    ggml_free(ctx);
}

/* Several backends use the same weights at once, which the first one packs. */
typedef struct caller {
    struct ggml_tensor *w;
    float first[5 * 300];
    bool good;
} caller;

static void *call(void *arg) {
    caller *c = arg;
    ggml_backend_t backend = make_fovea(reg, 2);
    struct ggml_context *ctx = context_of(4);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, c->w->ne[0], 5), *y = ggml_mul_mat(ctx, c->w, x);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    fill(x, 2);
    c->good = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
    memcpy(c->first, y->data, sizeof c->first);
    for (int i = 0; i < 50; i++)
        c->good = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS &&
                  !memcmp(c->first, y->data, sizeof c->first) && c->good;
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
    return NULL;
}

static void test_callers(void) {
    enum { CALLERS = 4 };
    static caller callers[CALLERS];
    pthread_t threads[CALLERS];
    struct ggml_context *placed = context_of(1);
    struct ggml_tensor *w = ggml_new_tensor_2d(placed, GGML_TYPE_Q4_K, 512, 300);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(placed, packed_type);
    char *bytes = weights_of(GGML_TYPE_Q4_K, 512, 300, 4);
    ggml_backend_tensor_set(w, bytes, 0, ggml_nbytes(w));
    for (int i = 0; i < CALLERS; i++) {
        callers[i].w = w;
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        check(callers[i].good && !memcmp(callers[i].first, callers[0].first, sizeof callers[0].first),
              "results differ while others compute", "callers");
    }
    free(bytes);
    ggml_backend_buffer_free(weights);
    ggml_free(placed);
}

/* AddressSanitizer keeps what was freed. */
#ifdef __SANITIZE_ADDRESS__
static const bool counted = false;
#else
static const bool counted = true;
#endif

static size_t resident(void) {
    long pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Packed weights are in memory once, and the scheduler leaves all around them to us. */
static void test_scheduler(void) {
    enum { IN = 2048, OUT = 8192 };
    ggml_backend_t backends[3] = {make_fovea(reg, 2), ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 1), NULL),
                                  ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL)};
    struct ggml_context *ctx = context_of(16), *placed = context_of(2);
    struct ggml_tensor *w = ggml_new_tensor_2d(placed, GGML_TYPE_F16, IN, OUT);
    const size_t before = resident();
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(placed, packed_type);
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    check(!ggml_backend_buffer_is_host(weights), "others may read it", "buffer type");
    check(!ggml_backend_supports_buft(backends[2], packed_type), "the CPU backend says that it reads it",
          "buffer type");
    char *bytes = weights_of(GGML_TYPE_F16, IN, OUT, 5);
    for (size_t at = 0, size = ggml_nbytes(w), piece = size / 4; at < size; at += piece)
        ggml_backend_tensor_set(w, bytes + at, at, piece);
    free(bytes);
    check(!counted || (double)(resident() - before) < 1.5 * (double)ggml_nbytes(w), "weights are in memory twice",
          "memory");
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, IN, 3);
    struct ggml_tensor *y = ggml_mul_mat(ctx, w, ggml_rms_norm(ctx, ggml_scale(ctx, x, 2), 1e-5f));
    struct ggml_tensor *out = ggml_swiglu(ctx, ggml_add(ctx, y, y));
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_set_input(x);
    ggml_set_output(out);
    ggml_build_forward_expand(graph, out);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 3, GGML_DEFAULT_GRAPH_SIZE, false, true);
    check(ggml_backend_sched_alloc_graph(sched, graph), "no graph", "scheduler");
    fill(x, 1);
    check(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "error", "scheduler");
    check(ggml_backend_sched_get_n_splits(sched) == 1, "the graph is split", "scheduler");
    check(ggml_backend_sched_get_tensor_backend(sched, y) == backends[0], "another backend", "scheduler");
    ggml_backend_sched_free(sched);
    for (int i = 0; i < 3; i++)
        ggml_backend_free(backends[i]);
    ggml_backend_buffer_free(weights);
    check(!counted || (double)(resident() - before) < 0.5 * IN * OUT * 2, "memory is not given back", "memory");
    ggml_free(placed);
    ggml_free(ctx);
}

/* Weights of a mapped file: once they are packed, their pages are not in memory, and can still be read. Those of a
 * private mapping, which may have been written to, stay. */
static void test_mapped(void) {
    enum { IN = 2048, OUT = 8192, BYTES = IN * OUT * 2 };
    char *bytes = weights_of(GGML_TYPE_F16, IN, OUT, 6);
    FILE *file = tmpfile();
    check(file && fwrite(bytes, 1, BYTES, file) == BYTES && fflush(file) == 0, "no file", "mapped");
    for (int shared = 0; shared < 2; shared++) {
        struct ggml_context *placed = context_of(2);
        struct ggml_tensor *w = ggml_new_tensor_2d(placed, GGML_TYPE_F16, IN, OUT);
        ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors_from_buft(placed, packed_type);
        ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        char *mapped = mmap(NULL, BYTES, shared ? PROT_READ : PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE,
                            fileno(file), 0);
        check(mapped != MAP_FAILED, "no mapping", "mapped");
        if (!shared)
            bytes[1]++, mapped[1]++;
        const size_t before = resident();
        ggml_backend_tensor_set(w, mapped, 0, BYTES);
        check(!shared || !counted || (double)(resident() - before) < 1.5 * BYTES, "the file's pages are in memory",
              "mapped");
        check(!memcmp(mapped, bytes, BYTES), "the file's bytes are lost", "mapped");
        if (!shared)
            bytes[1]--;
        munmap(mapped, BYTES);
        ggml_backend_buffer_free(weights);
        ggml_free(placed);
    }
    fclose(file);
    free(bytes);
}

int main(void) {
    reg = begin();
    check(ggml_backend_reg_dev_count(reg) == 2, "no second device", "buffer type");
    packed_type = ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1));
    test_scheduler();
    test_mapped();
    test_callers();
    if (takes_all()) { /* products are served wherever their weights are */
        test_maps();
        test_view();
    }
    if (!counted)
        printf("SKIPPED: memory, which AddressSanitizer keeps\n");
    return end();
}
