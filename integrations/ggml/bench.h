/* What the parts of ggml-fovea-bench share (bench.c). */
#ifndef FG_BENCH_H
#define FG_BENCH_H

#include "tests/problem.h"

#include <stdbool.h>

typedef struct bench {
    ggml_backend_reg_t reg;
    ggml_backend_t cpu, fovea;
    int rounds;
    bool quick;
    enum ggml_type type; /* GGML_TYPE_COUNT: those of the part */
} bench;

/* Ends a line: what an operation takes each of them, in turns. Graphs, of equal operations, follow one another. */
void bench_time(const bench *b, struct ggml_cgraph *const *theirs, struct ggml_cgraph *const *ours, int graphs);

void bench_attention(const bench *b);
void bench_products(const bench *b);

#endif
