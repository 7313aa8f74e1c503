/* Scores and values of few rows (thin.h). */
#include "attention/thin.h"

#include <string.h>

/* Rows of a call, and where the queries of the call's first row are. */
static int64_t rows_of_call(const fv_block *x, int64_t row) { return fv_min(x->rows - row, FV_DOT_ROWS); }
static float *queries_of_call(const fv_block *x, int64_t row) { return x->thin_q + row * x->plan->desc.head_dim; }

void fv_thin_open(fv_block *x) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim;
    x->thin = p->kernels.dot && x->kv->k.layout == FV_KV_ROWS;
    for (int64_t row = 0; row < x->rows && x->thin; row += FV_DOT_ROWS) {
        const int64_t rows = rows_of_call(x, row), stride = fv_dot_stride(rows);
        float *to = queries_of_call(x, row);
        for (int64_t c = 0; c < dim; c++)
            for (int64_t i = 0; i < stride; i++)
                to[c * stride + i] = i < rows ? x->q[(row + i) * dim + c] : 0.0f;
    }
}

/* Scores of all rows of the tile with count keys at k; columns from at on. */
static void call_dot(fv_block *x, const fv_tile *t, int64_t at, const void *k, int64_t stride, int64_t count) {
    const fovea_attention_plan *p = x->plan;
    fv_prefetch prefetch = {0};
    fv_prefetch_beside_keys(&x->queue, count * p->desc.value_dim, &prefetch);
    for (int64_t row = 0; row < x->rows; row += FV_DOT_ROWS) {
        p->kernels.dot(&(fv_dot_args){.rows = rows_of_call(x, row),
                                      .keys = count,
                                      .channels = p->desc.head_dim,
                                      .q = queries_of_call(x, row),
                                      .k = k,
                                      .ldk = stride,
                                      .s = x->s + row * p->s_stride + at,
                                      .lds = p->s_stride,
                                      .row_max = at + count <= t->row_max_end ? x->lanes + row * FV_LANES : NULL,
                                      .accumulate_max = at > t->columns.begin,
                                      .next = prefetch.next,
                                      .next_end = prefetch.next_end});
        prefetch.next = NULL; /* once is enough */
    }
}

/* A granule in which a run ends: its keys at one place first. */
static void dot_granule(fv_block *x, const fv_tile *t, const fv_segment *s, int64_t at, int64_t end) {
    const fv_kv_side *k = &x->kv->k;
    const int64_t size = fv_dtype_size(k->dtype), bytes = x->plan->desc.head_dim * size;
    for (int64_t key = at, count; key < end; key += count) {
        const fv_kv_run run = fv_run_of(x, k, s, key, end);
        count = run.count;
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)x->granule + (key - at + i) * bytes, (const char *)run.at + i * run.stride * size,
                   (size_t)bytes);
    }
    call_dot(x, t, at, x->granule, x->plan->desc.head_dim, end - at);
}

void fv_thin_scores(fv_block *x, const fv_tile *t, const fv_segment *s) {
    const int64_t end = fv_min(t->columns.end, s->keys.end);
    for (int64_t at = t->columns.begin, count; at < end; at += count) {
        const int64_t last = at < t->row_max_end ? fv_min(t->row_max_end, end) : end;
        const fv_kv_run run = fv_run_of(x, &x->kv->k, s, at, last);
        count = run.count < last - at || last < end ? fv_round_down(run.count, FV_LANES) : run.count;
        if (count > 0)
            call_dot(x, t, at, run.at, run.stride, count);
        else {
            count = fv_min(FV_LANES, end - at);
            dot_granule(x, t, s, at, at + count);
        }
    }
}

void fv_thin_values(const fovea_attention_plan *p, int64_t rows, int64_t keys, const float *weights,
                    const fv_kv_run *run, float *c, int64_t ldc, const fv_epilogue *epilogue, fv_prefetch *prefetch) {
    for (int64_t row = 0; row < rows; row += FV_DOT_ROWS) {
        fv_epilogue e = *epilogue;
        e.start = e.start ? e.start + row * e.ldstart : NULL;
        e.a = e.a ? e.a + row : NULL;
        e.b = e.b ? e.b + row : NULL;
        p->kernels.value_thin(fv_min(rows - row, FV_DOT_ROWS), p->desc.value_dim, keys, weights + row * p->s_stride,
                              p->s_stride, run->at, run->stride, c + row * ldc, ldc, &e, prefetch);
        prefetch->next = NULL; /* once is enough */
    }
}
