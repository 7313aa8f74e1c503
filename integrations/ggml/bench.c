/* Times operations in ggml, computed by its CPU backend and by this one, in turns:
 *     ggml-fovea-bench attention|products [--threads N] [--rounds N] [--type f16|q8_0|...] [--quick]
 * A line a shape: median microseconds of each, and twice the median of the ratios of neighbouring turns: of the first
 * half of the rounds, and of the second. To time it with another build of ggml, set LD_LIBRARY_PATH. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 102, LEAST_ROUNDS = 6 };

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

static double turn(ggml_backend_t backend, struct ggml_cgraph *graph) {
    const int64_t start = ggml_time_us();
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "%s failed\n", ggml_backend_name(backend));
        exit(1);
    }
    const int64_t us = ggml_time_us() - start;
    return us > 0 ? (double)us : 0.5;
}

void bench_time(const bench *b, struct ggml_cgraph *const *theirs, struct ggml_cgraph *const *ours, int graphs) {
    double cpu[MOST_ROUNDS], fovea[MOST_ROUNDS], ratios[MOST_ROUNDS];
    int n = 0;
    turn(b->cpu, theirs[0]);
    turn(b->fovea, ours[0]);
    const int64_t end = ggml_time_us() + (b->quick ? 200000 : 1000000);
    for (; n < b->rounds && (n < LEAST_ROUNDS || ggml_time_us() < end); n++) {
        const int i = (n + 1) % graphs;
        const bool swap = n % 2; /* who comes first */
        if (swap)
            fovea[n] = turn(b->fovea, ours[i]);
        cpu[n] = turn(b->cpu, theirs[i]);
        if (!swap)
            fovea[n] = turn(b->fovea, ours[i]);
        ratios[n] = cpu[n] / fovea[n];
    }
    const double per = ggml_graph_n_nodes(ours[0]);
    printf("ggml %8.1f us, Fovea %8.1f us, %5.2f %5.2f\n", median(cpu, n) / per, median(fovea, n) / per,
           median(ratios, n / 2), median(ratios + n / 2, n - n / 2));
    fflush(stdout);
}

static enum ggml_type type_named(const char *name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++)
        if (ggml_type_name(type) && !strcmp(ggml_type_name(type), name))
            return type;
    fprintf(stderr, "no type %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    int threads = 1;
    bench b = {.rounds = MOST_ROUNDS, .type = GGML_TYPE_COUNT};
    const bool products = argc > 1 && !strcmp(argv[1], "products");
    bool known = argc > 1 && (products || !strcmp(argv[1], "attention"));
    for (int i = 2; known && i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--quick")) {
            b.quick = true;
            continue;
        }
        if (!strcmp(argv[i], "--threads"))
            known = (threads = atoi(value)) > 0;
        else if (!strcmp(argv[i], "--rounds"))
            known = (b.rounds = atoi(value)) >= LEAST_ROUNDS && b.rounds <= MOST_ROUNDS;
        else if (!strcmp(argv[i], "--type"))
            b.type = type_named(value);
        else
            known = false;
        i++;
    }
    if (!known) {
        fprintf(stderr, "usage: %s attention|products [--threads N] [--rounds %d...%d] [--type q8_0] [--quick]\n",
                argv[0], LEAST_ROUNDS, MOST_ROUNDS);
        return 2;
    }
    ggml_backend_load_all();
    b.reg = load_fovea();
    b.fovea = make_fovea(b.reg, threads);
    b.cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_cpu_set_n_threads(b.cpu, threads);
    printf("ggml %s, %d thread%s\n", ggml_version(), threads, threads == 1 ? "" : "s");
    (products ? bench_products : bench_attention)(&b);
    ggml_backend_free(b.cpu);
    ggml_backend_free(b.fovea);
    return 0;
}
