/* Products of a layer's weights (mha.h): in float64, k ascending, each element rounded once. A row at a time is
 * widened, so no matrix of 16 bits is kept as floats. */
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/linear.h"
#include "mha/mha.h"

#include <stdlib.h>
#include <string.h>

/* The type of a product. */
static fovea_dtype common(fovea_dtype a, fovea_dtype b) { return a == b ? a : FOVEA_DTYPE_F32; }

/* A row in the making: n sums, and room for as many floats. */
typedef struct sums {
    double *sum;
    float *floats;
    int64_t n;
    fv_target target;
} sums;

static bool sums_make(sums *s, int64_t n, int64_t room, fv_target target) {
    *s = (sums){calloc((size_t)n, sizeof(double)), calloc((size_t)fv_max(n, room), sizeof(float)), n, target};
    return s->sum && s->floats;
}

static void sums_free(const sums *s) {
    free(s->sum);
    free(s->floats);
}

static void sums_clear(const sums *s) { memset(s->sum, 0, (size_t)s->n * sizeof *s->sum); }

/* n elements of a dense matrix from one on, as floats: where they are, or in the room. */
static const float *floats_of(const sums *s, const fv_dense *d, int64_t from, int64_t n) {
    if (d->dtype == FOVEA_DTYPE_F32)
        return (const float *)d->w + from;
    fv_to_floats(n, (const uint16_t *)d->w + from, 1, d->dtype, s->floats, s->target);
    return s->floats;
}

/* sum += a * row, elements from one of a dense matrix on. */
static void sums_add(const sums *s, double a, const fv_dense *d, int64_t from) {
    const float *row = floats_of(s, d, from, s->n);
    for (int64_t j = 0; j < s->n; j++)
        s->sum[j] += a * (double)row[j];
}

/* To a float whose last bit keeps what is cut off, so that rounding it to 16 bits rounds x once. */
static float to_odd(double x) {
    const float nearest = (float)x;
    if (!((double)nearest < x || (double)nearest > x))
        return nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if (x > 0.0 ? (double)nearest > x : (double)nearest < x)
        bits--;
    bits |= 1;
    float odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

/* The sums, rounded, to elements of a matrix from one on. */
static void sums_store(const sums *s, void *w, fovea_dtype dtype, int64_t at) {
    if (dtype == FOVEA_DTYPE_F32) {
        for (int64_t j = 0; j < s->n; j++)
            ((float *)w)[at + j] = (float)s->sum[j];
        return;
    }
    for (int64_t j = 0; j < s->n; j++)
        s->floats[j] = to_odd(s->sum[j]);
    fv_narrow_of(dtype, s->target)(1, s->n, s->floats, 0, (uint16_t *)w + at, 0);
}

/* One element as a double. */
static double element(const void *data, fovea_dtype dtype, int64_t at, fv_target target) {
    float x;
    fv_to_floats(1, (const char *)data + at * fv_dtype_size(dtype), 1, dtype, &x, target);
    return (double)x;
}

bool fv_fold_outer(fv_dense *d, const fovea_matrix *outer, const float *outer_bias, fv_target target) {
    fv_dense inner = *d;
    *d = (fv_dense){.in = 0}; /* inner owns the memory from here on */
    sums row;
    const bool ok = sums_make(&row, inner.out, 0, target) &&
                    fv_dense_make(d, outer->in, inner.out, common(inner.dtype, outer->dtype), inner.bias || outer_bias);
    for (int64_t i = 0; ok && i < outer->in; i++) {
        sums_clear(&row);
        for (int64_t k = 0; k < inner.in; k++)
            sums_add(&row, element(outer->data, outer->dtype, i * outer->in_stride + k * outer->out_stride, target),
                     &inner, k * inner.out);
        sums_store(&row, d->w, d->dtype, i * d->out);
    }
    if (ok && d->bias) {
        sums_clear(&row);
        for (int64_t k = 0; outer_bias && k < inner.in; k++)
            sums_add(&row, (double)outer_bias[k], &inner, k * inner.out);
        for (int64_t j = 0; inner.bias && j < inner.out; j++)
            row.sum[j] += (double)inner.bias[j];
        sums_store(&row, d->bias, FOVEA_DTYPE_F32, 0);
    }
    sums_free(&row);
    fv_dense_free(&inner);
    return ok;
}

/* sum[j] = left . row j of a factor's columns from one on. */
static void dot_rows(const sums *s, const float *left, const fv_dense *b, int64_t column, int64_t n) {
    for (int64_t j = 0; j < s->n; j++) {
        const float *right = floats_of(s, b, j * b->out + column, n);
        s->sum[j] = 0.0;
        for (int64_t c = 0; c < n; c++)
            s->sum[j] += (double)left[c] * (double)right[c];
    }
}

bool fv_fold_factors(fv_dense *d, const fv_mha_shape *s, const fv_dense *q, const fv_dense *k, bool keys,
                     fv_target target) {
    const fv_dense *a = keys ? k : q, *b = keys ? q : k;
    const int64_t rows = a->in, columns = b->in, group = s->heads / s->kv_heads;
    float *left = calloc((size_t)s->d_k, sizeof *left);
    sums row = {0};
    const bool ok = left && sums_make(&row, columns, s->d_k, target) &&
                    fv_dense_make(d, rows, s->heads * columns, common(q->dtype, k->dtype), q->bias);
    for (int64_t h = 0; ok && h < s->heads; h++) {
        const int64_t of_q = h * s->d_k, of_k = h / group * s->d_k;
        const int64_t left_at = keys ? of_k : of_q, right_at = keys ? of_q : of_k;
        for (int64_t i = 0; i < rows; i++) {
            fv_to_floats(s->d_k, (const char *)a->w + (i * a->out + left_at) * fv_dtype_size(a->dtype), 1, a->dtype,
                         left, target);
            dot_rows(&row, left, b, right_at, s->d_k);
            sums_store(&row, d->w, d->dtype, i * d->out + h * columns);
        }
        if (q->bias) { /* of the queries; merged keys have none */
            dot_rows(&row, q->bias + of_q, b, right_at, s->d_k);
            sums_store(&row, d->bias, FOVEA_DTYPE_F32, h * columns);
        }
    }
    free(left);
    sums_free(&row);
    return ok;
}

bool fv_fold_values(const fv_mha_shape *s, fv_mha_dense *dense, fv_target target) {
    fv_dense o = dense->o, *v = &dense->role[FV_MHA_V];
    const int64_t group = s->heads / s->kv_heads;
    dense->o = (fv_dense){.in = 0}; /* o owns the memory from here on */
    sums row;
    const bool ok = sums_make(&row, o.out, 0, target) &&
                    fv_dense_make(&dense->o, s->heads * v->in, o.out, common(v->dtype, o.dtype), o.bias);
    for (int64_t h = 0; ok && h < s->heads; h++)
        for (int64_t i = 0; i < v->in; i++) {
            sums_clear(&row);
            for (int64_t c = 0; c < s->d_v; c++)
                sums_add(&row, element(v->w, v->dtype, i * v->out + h / group * s->d_v + c, target), &o,
                         (h * s->d_v + c) * o.out);
            sums_store(&row, dense->o.w, dense->o.dtype, (h * v->in + i) * o.out);
        }
    if (ok && o.bias)
        memcpy(dense->o.bias, o.bias, (size_t)o.out * sizeof(float));
    sums_free(&row);
    fv_dense_free(&o);
    fv_dense_free(v);
    return ok;
}
