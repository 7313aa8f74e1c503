/* Forms of queries (queries.h).
 *
 * Queries of bfloat16 become words straight from the caller's memory: the exponent of the scale is added to theirs.
 * That is their product if all are normal numbers, before and after, which the exponents tell. Those of float16 cannot
 * hold the product: they stay as they are, and the product of scores multiplies by the scale. Figures:
 * docs/lab/types.md. */
#include "attention/sources/queries.h"

#include "attention/sources/source.h"

#include <math.h>
#include <string.h>

static const void *address_of(const fv_queries *x, int64_t row) {
    const fv_row_place at = fv_row_in_sequence(x->sequence, x->first, row);
    const fovea_tensor *q = x->from;
    const int64_t element = x->sequence->entry * q->stride[0] + at.head * q->stride[1] + at.token * q->stride[2];
    return (const char *)q->data + element * fv_dtype_size(q->dtype);
}

/* Did packing words find the norm? */
static bool words_have_norm(const fv_queries *x) {
    return x->made >> FV_QUERIES_words & 1 && x->from->dtype == FOVEA_DTYPE_BF16;
}

/* Rows of one head, scaled, as floats. */
static void scale_rows(fv_queries *x, int64_t row, int64_t rows, float *to) {
    const fv_sources *p = x->plan;
    const int64_t dim = p->desc->head_dim;
    fv_widen_bf16_fn *widen = fv_ops_widen(p->ops, x->from->dtype);
    const float *from = widen ? to : address_of(x, row);
    if (widen)
        widen(rows, dim, address_of(x, row), x->from->stride[2], to, dim);
    p->ops->scale(rows, dim, p->scale.q, from, widen ? dim : x->from->stride[2], to, dim,
                  x->asks_norm && !words_have_norm(x) ? &x->norm : NULL);
}

/* The same as words of two. */
static void pack_rows(fv_queries *x, int64_t row, int64_t rows, float *to) {
    const fv_sources *p = x->plan;
    const int64_t dim = p->desc->head_dim, words = fv_words_of(dim);
    if (x->from->dtype == FOVEA_DTYPE_BF16) {
        p->ops->pack_rows_bf16x2(rows, dim, address_of(x, row), x->from->stride[2], ilogbf(p->scale.q), to, words,
                                 &x->exponents, x->asks_norm ? &x->norm : NULL);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        to[(i + 1) * words - 1] = 0.0f;
        memcpy(to + i * words, address_of(x, row + i), (size_t)dim * sizeof(uint16_t));
    }
}

/* All of them, which are there as floats, rotated and as integers. */
static void rotate_rows(const fv_queries *x, uint32_t *to, int64_t words) {
    const fv_sources *p = x->plan;
    const int64_t dim = p->desc->head_dim;
    const float *from = x->form[FV_QUERIES_floats];
    for (int64_t i = 0; i < x->rows; i++) {
        float row[FV_I8_CHANNELS];
        fv_i4_rotate(1, dim, 1, from + i * dim, dim, row, dim);
        p->ops->quantize(1, dim, FV_I4_GROUP, p->k[FV_KEYS_int4]->kind, FV_I8_MOST, row, dim, to + i * words);
    }
}

/* Makes rows that hold a query, head by head, and zeros of the others. */
static void make(fv_queries *x, void (*take)(fv_queries *, int64_t, int64_t, float *), float *to, int64_t floats) {
    const int64_t q_start = x->sequence->q_start, q_end = q_start + x->sequence->q_len;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        const int64_t token = fv_row_in_sequence(x->sequence, x->first, row).token;
        run = fv_min(x->rows - row, x->sequence->tokens.end - token);
        const int64_t before = fv_max(fv_min(run, q_start - token), 0),
                      end = fv_max(fv_min(run, q_end - token), before);
        if (before < end)
            take(x, row + before, end - before, to + (row + before) * floats);
        if (before > 0) /* to set nothing takes hundreds of cycles where the page was never written */
            memset(to + row * floats, 0, (size_t)(before * floats) * sizeof(float));
        if (end < run)
            memset(to + (row + end) * floats, 0, (size_t)((run - end) * floats) * sizeof(float));
    }
}

void fv_queries_begin(fv_queries *x, bool asks_norm) {
    x->made = 0;
    x->asks_norm = asks_norm;
    x->norm = asks_norm ? 0.0f : INFINITY;
    x->exponents = fv_exponents_none();
}

int64_t fv_queries_floats(const fv_sources *plan, fv_query_form form) {
    const int64_t dim = plan->desc->head_dim;
    switch (form) {
    case FV_QUERIES_words: return fv_words_of(dim);
    case FV_QUERIES_integers: return fv_i8_row_words(dim) * (int64_t)(sizeof(fv_i8_word) / sizeof(float));
    case FV_QUERIES_groups: return fv_group_words(FV_KIND_i16, dim, FV_I4_GROUP); /* as of i8x2 */
    default: return dim;
    }
}

fv_rows fv_queries_in(fv_queries *x, fv_query_form form) {
    const int64_t dim = x->plan->desc->head_dim, floats = fv_queries_floats(x->plan, form);
    const fv_rows rows = {x->form[form], x->rows, form == FV_QUERIES_integers ? fv_i8_row_words(dim) : floats};
    if (x->made >> form & 1)
        return rows;
    if (form >= FV_QUERIES_integers)
        fv_queries_in(x, FV_QUERIES_floats);
    x->made |= 1u << form;
    switch (form) {
    case FV_QUERIES_floats: make(x, scale_rows, x->form[form], floats); break;
    case FV_QUERIES_words: make(x, pack_rows, x->form[form], floats); break;
    case FV_QUERIES_groups: rotate_rows(x, x->form[form], floats); break;
    default: fv_i8_rows(x->rows, dim, x->form[FV_QUERIES_floats], dim, x->form[form]); break;
    }
    return rows;
}

void fv_queries_drop_words(fv_queries *x) {
    x->made &= ~(1u << FV_QUERIES_words);
    x->norm = x->asks_norm ? 0.0f : INFINITY;
}

void fv_queries_ensure_norm(fv_queries *x) {
    if (x->asks_norm && !words_have_norm(x))
        fv_queries_in(x, FV_QUERIES_floats);
}
