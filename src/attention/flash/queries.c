/* The queries of a block: scaled, as floats, or, where scores may be those of pairs, as pairs (block.h, pack_keys.c).
 *
 * Queries of bfloat16 become pairs straight from the caller's memory: the exponent of the scale is added to theirs.
 * That is their product, if all are normal numbers, before and after; else the block has no pairs. So floats are made
 * only when scores turn out not to be those of pairs. Figures: docs/measurements.md, "16-bit types".
 */
#include "attention/flash/score.h"

#include <math.h>
#include <string.h>

/* Where the norm of queries goes; NULL: it is not asked for, or known. */
static float *norm_of(fv_block *x) { return x->norm < INFINITY && !x->normed ? &x->norm : NULL; }

/* Scaled queries of rows of one head, as floats. */
static void scale_queries(fv_block *x, int64_t row, int64_t rows) {
    const fovea_attention_plan *p = x->plan;
    const fovea_tensor *q = &x->args->q;
    const int64_t dim = p->desc.head_dim;
    float *to = x->q + row * dim;
    const float *from = to;
    if (p->kernels.widen_q)
        p->kernels.widen_q(rows, dim, fv_row_address(x, q, row), q->stride[2], to, dim);
    else
        from = fv_row_element(x, q, row);
    p->kernels.scale(rows, dim, p->scale.q, from, p->kernels.widen_q ? dim : q->stride[2], to, dim, norm_of(x));
}

/* The same as pairs. */
static void pair_queries(fv_block *x, int64_t row, int64_t rows) {
    const fovea_attention_plan *p = x->plan;
    const fovea_tensor *q = &x->args->q;
    const int64_t dim = p->desc.head_dim;
    float *const pairs = x->pairs_q + row * p->pair_words;
    if (p->kernels.pack_q) {
        p->kernels.pack_q(rows, dim, fv_row_address(x, q, row), q->stride[2], ilogbf(p->scale.q), pairs, p->pair_words,
                          &x->exponents, norm_of(x));
        return;
    }
    for (int64_t i = 0; i < rows; i++) { /* of float16 as they are: the product multiplies by the scale */
        pairs[(i + 1) * p->pair_words - 1] = 0.0f;
        memcpy(pairs + i * p->pair_words, fv_row_address(x, q, row + i), (size_t)dim * sizeof(uint16_t));
    }
}

/* Takes all queries in one of both forms. Those of padding are zeros: they are not read. */
static void convert_queries(fv_block *x, void (*take)(fv_block *, int64_t, int64_t), float *to, int64_t floats) {
    const int64_t q_start = x->sequence.q_start, q_end = q_start + x->sequence.q_len;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        run = fv_run_of_head(x, row, x->rows - row);
        const int64_t token = fv_place_of(x, row).token, before = fv_max(fv_min(run, q_start - token), 0),
                      end = fv_max(fv_min(run, q_end - token), before);
        if (before < end)
            take(x, row + before, end - before);
        if (before > 0) /* to set nothing takes hundreds of cycles where the page was never written */
            memset(to + row * floats, 0, (size_t)(before * floats) * sizeof(float));
        if (end < run)
            memset(to + (row + end) * floats, 0, (size_t)((run - end) * floats) * sizeof(float));
    }
}

void fv_queries_ensure_floats(fv_block *x) {
    if (x->floats)
        return;
    x->floats = true;
    convert_queries(x, scale_queries, x->q, x->plan->desc.head_dim);
    x->normed = true;
}

void fv_queries_open(fv_block *x) {
    const fovea_attention_plan *p = x->plan;
    const float norm = fv_score_asks_norms(x) ? 0.0f : INFINITY;
    x->norm = norm;
    x->normed = x->floats = false;
    x->exponents = fv_exponents_none();
    if (x->pairs) {
        convert_queries(x, pair_queries, x->pairs_q, p->pair_words);
        x->exponents = fv_exponents_scaled(x->exponents, ilogbf(p->scale.q));
        x->pairs = fv_pairs_exact(x->exponents, fv_exponents_none());
        x->norm = x->pairs ? x->norm : norm;
        x->normed = x->pairs && p->kernels.pack_q;
    }
    if (!x->pairs || p->kernels.score_rows || norm_of(x))
        fv_queries_ensure_floats(x);
}
