/* Times attention in ggml, computed by its CPU backend and by this one, in turns:
 *     ggml-fovea-bench [--threads N] [--rounds N] [--quick] [--model N] [--type f16|q8_0|...]
 * A line a shape: median microseconds of each, and the median of the ratios of neighbouring runs. To time it with
 * another build of ggml, set LD_LIBRARY_PATH. */
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

static double once(ggml_backend_t backend, struct ggml_cgraph *graph) {
    const int64_t start = ggml_time_us();
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "%s failed\n", ggml_backend_name(backend));
        exit(1);
    }
    return (double)(ggml_time_us() - start);
}

static void time_shape(const problem *p, ggml_backend_t cpu, ggml_backend_t fovea, int rounds, double seconds) {
    solved s = problem_make(p);
    double theirs[MOST_ROUNDS], ours[MOST_ROUNDS], ratios[MOST_ROUNDS], spent = 0;
    int n = 0;
    once(cpu, s.graph);
    once(fovea, s.graph);
    for (; n < rounds && (n < 3 || spent < seconds); n++) {
        const bool swap = n % 2; /* who comes first */
        if (swap)
            ours[n] = once(fovea, s.graph);
        theirs[n] = once(cpu, s.graph);
        if (!swap)
            ours[n] = once(fovea, s.graph);
        ratios[n] = theirs[n] / (ours[n] > 0 ? ours[n] : 1);
        spent += (theirs[n] + ours[n]) / 1e6;
    }
    printf("%-5s D %3lld heads %2lld/%lld rows %3lld keys %5lld: ggml %9.0f us, Fovea %9.0f us, %5.2f\n",
           ggml_type_name(p->k_type), (long long)p->head_dim, (long long)p->heads, (long long)p->kv_heads,
           (long long)p->rows, (long long)p->keys, median(theirs, n), median(ours, n), median(ratios, n));
    fflush(stdout);
    problem_free(&s);
}

int main(int argc, char **argv) {
    int threads = 1, rounds = 21, quick = 0, only = -1;
    const char *type_name = "f16";
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            quick = 1;
        } else if (i + 1 < argc && !strcmp(argv[i], "--threads")) {
            threads = atoi(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--model")) {
            only = atoi(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--rounds")) {
            rounds = atoi(argv[++i]);
        } else if (i + 1 < argc && !strcmp(argv[i], "--type")) {
            type_name = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--threads N] [--rounds N] [--quick] [--model 0] [--type f16]\n", argv[0]);
            return 2;
        }
    }
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    enum ggml_type type = GGML_TYPE_F32;
    while (type < GGML_TYPE_COUNT && (!ggml_type_name(type) || strcmp(ggml_type_name(type), type_name)))
        type++;
    if (type == GGML_TYPE_COUNT) {
        fprintf(stderr, "no type %s\n", type_name);
        return 2;
    }
    ggml_backend_load_all();
    ggml_backend_t fovea = make_fovea(load_fovea(), threads);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_cpu_set_n_threads(cpu, threads);
    printf("ggml %s, %d thread%s\n", ggml_version(), threads, threads == 1 ? "" : "s");
    static const struct {
        int64_t head_dim, heads, kv_heads;
    } models[] = {{128, 32, 8}, {64, 9, 3}, {256, 8, 4}, {64, 12, 12}};
    static const int64_t rows[] = {1, 2, 4, 8, 16, 32, 63, 64, 128, 512}, keys[] = {32, 256, 512, 2048, 8192};
    const size_t first = only < 0 ? 0 : (size_t)only, end = only < 0 ? sizeof models / sizeof models[0] : first + 1;
    for (size_t m = first; m < end && m < sizeof models / sizeof models[0]; m++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
                if (rows[i] > keys[j] || rows[i] * keys[j] > (quick ? 128 << 12 : 512 << 13))
                    continue;
                const problem p = {.head_dim = models[m].head_dim,
                                   .value_dim = models[m].head_dim,
                                   .heads = models[m].heads,
                                   .kv_heads = models[m].kv_heads,
                                   .rows = rows[i],
                                   .keys = keys[j],
                                   .batch = 1,
                                   .k_type = type,
                                   .v_type = type,
                                   .mask = MASK_CAUSAL,
                                   .views = 1};
                time_shape(&p, cpu, fovea, rounds, quick ? 0.3 : 1);
            }
    ggml_backend_free(cpu);
    ggml_backend_free(fovea);
    return 0;
}
