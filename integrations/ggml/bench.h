/* Shared by the parts of ggml-fovea-bench (bench.c) and fovea-tune-ggml (tune.c). */
#ifndef FG_BENCH_H
#define FG_BENCH_H

#include "tests/problem.h"

#include <stdbool.h>

enum { BENCH_MOST_ROUNDS = 102, BENCH_LEAST_ROUNDS = 6 };

typedef struct bench {
    ggml_backend_reg_t reg;
    ggml_backend_t cpu, fovea;
    int threads, rounds;
    bool quick, experts;                   /* experts: of products */
    double weight_bytes, graph_operations; /* of products, all and those of a graph */
    enum ggml_type type;                   /* GGML_TYPE_COUNT: those of the part */
    const char *only;                      /* of recurrences: those whose names begin so; NULL: all */
    int tokens, layers;                    /* of recurrences; 0: what the part has */
} bench;

/* Loads backends, ours too, with `threads` threads. */
void bench_begin(bench *b, int threads);
void bench_end(const bench *b);

/* One side of a comparison: a backend, or a scheduler of several, that computes graphs of equal, consecutive
 * operations. */
typedef struct bench_side {
    ggml_backend_t backend;
    ggml_backend_sched_t sched; /* or NULL */
    struct ggml_cgraph *const *graphs;
} bench_side;

typedef struct bench_result {
    double cpu_us, fovea_us; /* medians of an operation */
    double ratio[2];         /* medians of ggml's time / Fovea's, of both halves of the rounds */
    double error;            /* of the logarithm of their mean */
    int rounds;
} bench_result;

/* Measures the time of an operation on both sides, in turns. */
bench_result bench_measure(const bench *b, const bench_side *theirs, const bench_side *ours, int graphs);
/* Prints the end of a line. */
void bench_print(const bench_result *result);

/* Products of in channels to out, of each number of rows: done(arg, rows, result) after each. */
typedef void bench_done(void *arg, int64_t rows, const char *buffer, const bench_result *result);
void bench_product(const bench *b, enum ggml_type type, int64_t in, int64_t out, const int64_t *rows, int count,
                   bench_done *done, void *arg);

/* One attention, on the backends alone. */
bench_result bench_attend(const bench *b, const problem *p);
/* The same between operations of the CPU backend, by a scheduler: changes of backend count. */
bench_result bench_attend_between(const bench *b, const problem *p);

void bench_attention(const bench *b);
void bench_products(const bench *b);
void bench_recurrences(const bench *b);

#endif
