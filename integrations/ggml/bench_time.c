/* Times of both backends, in turns (bench.h). */
#define _DEFAULT_SOURCE /* nanosleep */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REST_NS = 20000000 };

void bench_begin(bench *b, int threads) {
    ggml_backend_load_all();
    b->threads = threads;
    b->reg = load_fovea();
    b->fovea = make_fovea(b->reg, threads);
    b->cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_cpu_set_n_threads(b->cpu, threads);
}

void bench_end(const bench *b) {
    ggml_backend_free(b->cpu);
    ggml_backend_free(b->fovea);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

static void compute(const bench_side *side, struct ggml_cgraph *graph) {
    const enum ggml_status status = side->sched ? ggml_backend_sched_graph_compute(side->sched, graph)
                                                : ggml_backend_graph_compute(side->backend, graph);
    if (status != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "%s failed\n", ggml_backend_name(side->backend));
        exit(1);
    }
}

/* libgomp's threads spin for milliseconds after the other side's turn: they would share CPUs with this side's. */
static void rest(const bench_side *side, struct ggml_cgraph *before) {
    const struct timespec time = {.tv_nsec = REST_NS};
    (void)nanosleep(&time, NULL);
    compute(side, before); /* wakes this side's own */
}

static double turn(const bench *b, const bench_side *side, int graph, int graphs) {
    if (b->threads > 1)
        rest(side, side->graphs[(graph + graphs - 1) % graphs]);
    const int64_t start = ggml_time_us();
    compute(side, side->graphs[graph]);
    const int64_t us = ggml_time_us() - start;
    return us > 0 ? (double)us : 0.5;
}

/* Views take no time. */
static int operations_of(struct ggml_cgraph *graph) {
    int count = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++)
        count += ggml_graph_node(graph, i)->op != GGML_OP_RESHAPE;
    return count;
}

bench_result bench_measure(const bench *b, const bench_side *theirs, const bench_side *ours, int graphs) {
    double cpu[BENCH_MOST_ROUNDS], fovea[BENCH_MOST_ROUNDS], ratios[BENCH_MOST_ROUNDS], sum = 0, squares = 0;
    int n = 0;
    compute(theirs, theirs->graphs[0]);
    compute(ours, ours->graphs[0]);
    const int64_t end = ggml_time_us() + (b->quick ? 200000 : 1000000);
    for (; n < b->rounds && (n < BENCH_LEAST_ROUNDS || ggml_time_us() < end); n++) {
        const int i = (n + 1) % graphs;
        const bool swap = n % 2; /* who comes first */
        if (swap)
            fovea[n] = turn(b, ours, i, graphs);
        cpu[n] = turn(b, theirs, i, graphs);
        if (!swap)
            fovea[n] = turn(b, ours, i, graphs);
        ratios[n] = cpu[n] / fovea[n];
        sum += log(ratios[n]);
        squares += log(ratios[n]) * log(ratios[n]);
    }
    const double per = operations_of(ours->graphs[0]), mean = sum / n;
    bench_result r = {.cpu_us = median(cpu, n) / per, .fovea_us = median(fovea, n) / per, .rounds = n};
    r.error = sqrt(fmax(squares / n - mean * mean, 0) / (n - 1));
    r.ratio[0] = median(ratios, n / 2);
    r.ratio[1] = median(ratios + n / 2, n - n / 2);
    return r;
}

void bench_print(const bench_result *r) {
    printf("ggml %8.1f us, Fovea %8.1f us, %5.2f %5.2f\n", r->cpu_us, r->fovea_us, r->ratio[0], r->ratio[1]);
    fflush(stdout);
}
