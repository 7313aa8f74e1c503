/* The comparison of fovea-minilm, between bout.c, which runs it, report.c, which prints it, and
 * attention.c. Whatever fails ends the program with a sentence. */
#ifndef MINILM_BOUT_H
#define MINILM_BOUT_H

#include "agreement.h"
#include "data.h"

#include <fovea/fovea.h>

#include <stdbool.h>

enum { BOUT_ROUNDS = 5, BOUT_ROWS = 16 };

/* One line of the table. */
typedef struct contestant {
    const char *name;
    fovea_context *context; /* NULL: plain C */
    fovea_attention_plan *plan;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
    fovea_context_facts info;
    float *out;
    double *samples; /* seconds of each counted run */
    int64_t sample_count;
    double peak; /* GFLOP/s, 0 where it was not measured */
    agreement errors;
    int same_bits;
} contestant;

/* CPU time of the runs, one for each thread: seconds that passed there, and those of them spent on the runs. */
typedef struct cpu_use {
    double passed, worked;
} cpu_use;

typedef struct bout {
    const char *title; /* of the data */
    minilm_data data;
    reference ref;
    float *scores; /* scratch of plain C */
    contestant rows[BOUT_ROWS];
    int row_count;
    char missing[128]; /* tiers of the library that did not run */
    cpu_use one, all;  /* of the runs on one thread, of those on all */
} bout;

/* Ends the program. */
void bout_die(const char *what);

/* Zeroed memory. */
void *bout_allocate(size_t count, size_t bytes);

/* Plain C, every tier with one thread, the best tier with all threads if these are more than one. data, ref and scores
 * must be there. */
void bout_add_contestants(bout *b, int threads);

/* Takes turns for about that many seconds; after each, the bits are held against those of rows[1], which is the scalar
 * tier. */
void bout_measure(bout *b, double seconds);

/* Plain C, plain_attention.c: out = softmax(q k^T / sqrt(head_dim)) v for arrays [tokens][heads][head_dim]. scores is
 * scratch, tokens x tokens. */
void plain_attention(const float *q, const float *k, const float *v, float *out, float *scores, int64_t tokens,
                     int64_t heads, int64_t head_dim);

/* Frees what these two made. */
void bout_free(bout *b);

/* Prints the table and what it comes to; verbose: legends, errors and the plan, too. 0 if nothing is wrong. */
int bout_report(bout *b, bool verbose);

#endif
