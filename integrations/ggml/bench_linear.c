/* Times products with weights in ggml, computed by its CPU backend (repacked where it does that) and by this one, in turns:
 *     ggml-fovea-bench-linear [--threads N] [--rounds N] [--type NAME]
 * A line a shape: median microseconds of each, and the median of the ratios of neighbouring runs. To time it with another
 * build of ggml, set LD_LIBRARY_PATH. */
#include "tests/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 101 };

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

/* One backend's product: weights in its own buffer type. */
typedef struct product {
    ggml_backend_t backend;
    struct ggml_context *placed, *ctx;
    ggml_backend_buffer_t weights, buffer;
    struct ggml_cgraph *graph;
} product;

/* The first of the types in which the device multiplies these weights. */
static ggml_backend_buffer_t place(ggml_backend_t backend, struct ggml_context *placed, struct ggml_tensor *w,
                                   struct ggml_tensor *y, ggml_backend_buffer_type_t *types) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    for (; *types; types++) {
        w->buffer = ggml_backend_buft_alloc_buffer(*types, 0);
        const bool served = ggml_backend_dev_supports_op(device, y);
        ggml_backend_buffer_free(w->buffer);
        w->buffer = NULL;
        if (served)
            break;
    }
    ggml_backend_buffer_type_t type = *types ? *types : ggml_backend_cpu_buffer_type();
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(placed, type);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return buffer;
}

static product make(ggml_backend_t backend, ggml_backend_buffer_type_t *types, enum ggml_type type, int64_t in,
                    int64_t out, int64_t rows, const void *bytes) {
    product p = {.backend = backend};
    struct ggml_init_params params = {.mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    p.placed = ggml_init(params);
    p.ctx = ggml_init(params);
    struct ggml_tensor *w = ggml_new_tensor_2d(p.placed, type, in, out),
                       *x = ggml_new_tensor_2d(p.ctx, GGML_TYPE_F32, in, rows), *y = ggml_mul_mat(p.ctx, w, x);
    p.weights = place(backend, p.placed, w, y, types);
    p.buffer = ggml_backend_alloc_ctx_tensors_from_buft(p.ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_tensor_set(w, bytes, 0, ggml_nbytes(w));
    uint64_t seed = 5;
    for (int64_t i = 0; i < in * rows; i++)
        ((float *)x->data)[i] = random_float(&seed);
    p.graph = ggml_new_graph(p.ctx);
    ggml_build_forward_expand(p.graph, y);
    return p;
}

static void drop(product *p) {
    ggml_backend_buffer_free(p->weights);
    ggml_backend_buffer_free(p->buffer);
    ggml_free(p->ctx);
    ggml_free(p->placed);
}

static double once(const product *p) {
    const int64_t start = ggml_time_us();
    if (ggml_backend_graph_compute(p->backend, p->graph) != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "%s failed\n", ggml_backend_name(p->backend));
        exit(1);
    }
    return (double)(ggml_time_us() - start);
}

static void time_products(const product *cpu, const product *fovea, int rounds) {
    double theirs[MOST_ROUNDS], ours[MOST_ROUNDS], ratios[MOST_ROUNDS], spent = 0;
    int n = 0;
    once(cpu);
    once(fovea);
    for (; n < rounds && (n < 3 || spent < 0.4); n++) {
        const bool swap = n % 2; /* who comes first */
        if (swap)
            ours[n] = once(fovea);
        theirs[n] = once(cpu);
        if (!swap)
            ours[n] = once(fovea);
        ratios[n] = theirs[n] / (ours[n] > 0 ? ours[n] : 1);
        spent += (theirs[n] + ours[n]) / 1e6;
    }
    printf("%-12s ggml %9.0f us, Fovea %9.0f us, %5.2f\n", ggml_backend_buffer_name(cpu->weights), median(theirs, n),
           median(ours, n), median(ratios, n));
    fflush(stdout);
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

int main(int argc, char **argv) {
    int threads = 1, rounds = 21;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && !strcmp(argv[i], "--threads")) {
            threads = atoi(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--rounds")) {
            rounds = atoi(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--type")) {
            only = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--threads N] [--rounds N] [--type q4_K]\n", argv[0]);
            return 2;
        }
    }
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    ggml_backend_load_all();
    ggml_backend_reg_t reg = load_fovea();
    ggml_backend_t fovea = make_fovea(reg, threads),
                   cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_cpu_set_n_threads(cpu, threads);
    ggml_backend_dev_get_extra_bufts_t extra;
    void *const address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu)),
                                                            "ggml_backend_dev_get_extra_bufts");
    memcpy(&extra, &address, sizeof extra);
    ggml_backend_buffer_type_t none[] = {NULL}, *repacked = extra ? extra(ggml_backend_get_device(cpu)) : none;
    ggml_backend_buffer_type_t packed[] = {ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1)), NULL};
    printf("ggml %s, %d thread%s\n", ggml_version(), threads, threads == 1 ? "" : "s");
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    static const int64_t sizes[][2] = {{768, 256}, {2048, 2048}, {2048, 8192}}, rows[] = {1, 2, 4, 8, 16, 64, 256};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (only && strcmp(only, ggml_type_name(types[t])))
                continue;
            void *bytes = random_weights(types[t], sizes[s][0], sizes[s][1]);
            for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
                product theirs =
                    make(cpu, repacked ? repacked : none, types[t], sizes[s][0], sizes[s][1], rows[r], bytes);
                product ours = make(fovea, packed, types[t], sizes[s][0], sizes[s][1], rows[r], bytes);
                printf("%-5s %4lld to %4lld, rows %3lld: ", ggml_type_name(types[t]), (long long)sizes[s][0],
                       (long long)sizes[s][1], (long long)rows[r]);
                time_products(&theirs, &ours, rounds);
                drop(&theirs);
                drop(&ours);
            }
            free(bytes);
        }
    ggml_backend_free(cpu);
    ggml_backend_free(fovea);
    return 0;
}
