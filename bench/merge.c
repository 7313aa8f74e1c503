/* fovea-bench: fovea_attention_merge() of results over parts of the keys. Its result is checked before it is timed: the
 * scalar tier's formulas, in float64, within a few roundings. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { MOST_PARTS = 64 };

typedef struct merge {
    bench base;
    int64_t parts, batch, heads, q_len, value_dim;
    fovea_attention_part part[MOST_PARTS + 1]; /* the last: the whole */
} merge;

static void merge_end(bench *base) {
    merge *self = (merge *)base;
    for (int64_t i = 0; i <= self->parts; i++) {
        free(self->part[i].out.data);
        free(self->part[i].lse.data);
        self->part[i] = (fovea_attention_part){.out = {.data = NULL}};
    }
}

static void merge_run(bench *base) {
    merge *self = (merge *)base;
    fovea_attention_merge(self->part, self->parts, NULL, &self->part[self->parts]);
}

static const float *floats(const fovea_tensor *t) { return t->data; }

/* Checks the first channel of each row. */
static const char *check(const merge *self) {
    static char error[BENCH_ERROR_SIZE];
    const int64_t rows = self->batch * self->heads * self->q_len;
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0, out = 0;
        for (int64_t i = 0; i < self->parts; i++) {
            const double weight = exp((double)floats(&self->part[i].lse)[row]);
            sum += weight;
            out += weight * (double)floats(&self->part[i].out)[row * self->value_dim];
        }
        const double got = (double)floats(&self->part[self->parts].out)[row * self->value_dim];
        if (!(fabs(got - out / sum) <= 1e-5)) {
            snprintf(error, sizeof error, "WRONG: row %" PRId64 " of the merge is %g instead of %g", row, got,
                     out / sum);
            return error;
        }
    }
    return NULL;
}

static const char *merge_begin(bench *base, shim_cost *cost) {
    merge *self = (merge *)base;
    const int64_t rows = self->batch * self->heads * self->q_len, n = rows * self->value_dim;
    for (int64_t i = 0; i <= self->parts; i++) {
        float *out = bench_alloc(n * (int64_t)sizeof(float)), *lse = bench_alloc(rows * (int64_t)sizeof(float));
        self->part[i].out =
            fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, self->batch, self->heads, self->q_len, self->value_dim);
        self->part[i].lse = fovea_tensor_bhtd(lse, FOVEA_DTYPE_F32, self->batch, self->heads, self->q_len, 1);
        if (out == NULL || lse == NULL)
            return "no memory";
        bench_fill(out, n, -1, 1, (uint64_t)i + 1);
        bench_fill(lse, rows, -2, 2, (uint64_t)i + 100);
    }
    if (fovea_attention_merge(self->part, self->parts, NULL, &self->part[self->parts]) != FOVEA_OK)
        return fovea_error_detail();
    cost->bytes = 4.0 * (double)((self->parts + 1) * (n + rows));
    return check(self);
}

static bench *merge_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    const int64_t most = INT64_C(1) << 20;
    int64_t parts = 4, batch = 1, heads = 32, q_len = 1, value_dim = 128;
    const cli_key keys[] = {{"parts", NULL, 1, MOST_PARTS, &parts},
                            {"batch", NULL, 1, most, &batch},
                            {"heads", NULL, 1, most, &heads},
                            {"q_len", NULL, 1, most, &q_len},
                            {"value_dim", NULL, 1, most, &value_dim}};
    const bench functions = {.begin = merge_begin, .run = merge_run, .end = merge_end};
    merge *self = bench_new(sizeof *self, &functions, words, keys, 5, BENCH_TAKES_NEITHER, error);
    if (self == NULL)
        return NULL;
    self->parts = parts;
    self->batch = batch;
    self->heads = heads;
    self->q_len = q_len;
    self->value_dim = value_dim;
    bench_name(&self->base, "merge/f32/p%" PRId64 "_b%" PRId64 "_h%" PRId64 "_q%" PRId64 "_dv%" PRId64, parts, batch,
               heads, q_len, value_dim);
    return &self->base;
}

const bench_kind bench_merge = {"merge", merge_make,
                                "parts=4 batch=1 heads=32 q_len=1 value_dim=128\n"
                                "      merges the results over this many parts of the keys (fovea_attention_merge)"};
