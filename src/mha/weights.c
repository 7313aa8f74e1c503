/* Gathering a layer's weights: whatever the form and strides, each map becomes a dense [in, out] matrix, products of
 * matrices in float64 and rounded once. Serial and portable, so the same bits everywhere; done once for a model. */
#include "core/core.h"
#include "linear/linear.h"
#include "mha/mha.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- checks -- */

typedef struct rule {
    const char *name;
    const fovea_matrix *matrix;
    bool required;
    int64_t in, out;
    int64_t heads, head_stride; /* of the side that has heads */
} rule;

static fovea_status check_matrix(const rule *r) {
    const fovea_matrix *m = r->matrix;
    if (!m->data)
        return r->required ? fv_fail(FOVEA_ERROR_NULL, "weights: %s is NULL", r->name) : FOVEA_OK;
    if (m->in != r->in || m->out != r->out)
        return fv_fail(FOVEA_ERROR_SHAPE, "weights: %s is %lld x %lld, but the description says %lld x %lld", r->name,
                       (long long)m->in, (long long)m->out, (long long)r->in, (long long)r->out);
    if (m->in_stride < 0 || m->out_stride < 0 || r->head_stride < 0)
        return fv_fail(FOVEA_ERROR_STRIDE, "weights: %s has a negative stride", r->name);
    if (m->dtype != FOVEA_DTYPE_F32) {
        char field[48];
        snprintf(field, sizeof field, "weights: dtype of %s", r->name);
        return fv_dtype_refuse(field, m->dtype, "layers take FOVEA_DTYPE_F32");
    }
    if (m->quantisation)
        return fv_fail(FOVEA_ERROR_DTYPE, "weights: %s: quantisation is not supported", r->name);
    int64_t a, b, c, bytes;
    if (!fv_multiply(m->in, m->in_stride, &a) || !fv_multiply(m->out, m->out_stride, &b) ||
        !fv_multiply(r->heads, r->head_stride, &c) || !fv_add(a, b, &bytes) || !fv_add(bytes, c, &bytes) ||
        !fv_multiply(bytes, (int64_t)sizeof(float), &bytes))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "weights: the strides of %s exceed the address space", r->name);
    return FOVEA_OK;
}

static fovea_status check_biases(const fovea_mha_desc *d, const fovea_mha_weights *w) {
    const bool folded = d->form == FOVEA_MHA_FOLDED, each = d->form < FOVEA_MHA_PROJECTED;
    const struct {
        const char *name;
        const void *bias;
        bool used;
        const char *lacks; /* what, beside a form that takes it, the bias lacks */
    } all[] = {{"q_bias", w->q_bias, each || d->form == FOVEA_MHA_TIED, NULL},
               {"k_bias", w->k_bias, each, NULL},
               {"v_bias", w->v_bias, each, NULL},
               {"o_bias", w->o_bias, true, d->out_features > 0 ? NULL : "out_features is 0"},
               {"outer_q_bias", w->outer_q_bias, folded, w->outer_q.data ? NULL : "outer_q is absent"},
               {"outer_k_bias", w->outer_k_bias, folded, w->outer_k.data ? NULL : "outer_k is absent"},
               {"outer_v_bias", w->outer_v_bias, folded, w->outer_v.data ? NULL : "outer_v is absent"},
               {"fused_bias", w->fused_bias, d->form == FOVEA_MHA_FUSED, NULL}};
    if (w->bias_dtype != FOVEA_DTYPE_F32)
        return fv_dtype_refuse("weights: bias_dtype", w->bias_dtype, "layers take FOVEA_DTYPE_F32");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].bias && !d->biases)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but biases is 0", all[i].name);
        if (all[i].bias && !all[i].used)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but form is %s, which does not use it",
                           all[i].name, fv_enum_name(FV_ENUM_mha_form, (int)d->form));
        if (all[i].bias && all[i].lacks)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but %s", all[i].name, all[i].lacks);
    }
    if (d->form == FOVEA_MHA_MERGED && w->k_bias && (d->attention->softcap > 0.0 || d->attention->has_sinks))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "k_bias: form FOVEA_MHA_MERGED leaves out what it adds to all scores of a row, which %s notices",
                       d->attention->has_sinks ? "a sink" : "a softcap");
    if (d->form == FOVEA_MHA_MERGED && w->q_bias && (w->merged || d->merge == FOVEA_MHA_MERGE_KEYS))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "q_bias: a merged layer holds it only with FOVEA_MHA_MERGE_QUERIES and W_i made of q and k");
    return FOVEA_OK;
}

fovea_status fv_mha_read_weights(const fovea_mha_weights *given, fovea_mha_weights *w) {
    if (!given)
        return fv_fail(FOVEA_ERROR_NULL, "weights is NULL");
    fovea_mha_weights_init(w);
    return fv_struct_read(FV_STRUCT(fovea_mha_weights, bias_dtype), given, w);
}

fovea_status fv_mha_check_weights(const fovea_mha_desc *d, const fv_mha_shape *s, const fovea_mha_weights *w) {
    const fovea_status named = fv_enum_check(FV_ENUM_mha_order, "weights: order", (int)w->order);
    if (named != FOVEA_OK)
        return named;
    const bool fused = d->form == FOVEA_MHA_FUSED, raw = d->form == FOVEA_MHA_PROJECTED;
    const bool folded = d->form == FOVEA_MHA_FOLDED, given = d->form == FOVEA_MHA_MERGED && w->merged;
    const bool each = !fused && !raw, three = each && d->form != FOVEA_MHA_TIED;
    const int64_t features[] = {s->role[0].features, s->role[1].features, s->role[2].features};
    const fovea_matrix *outer[] = {&w->outer_q, &w->outer_k, &w->outer_v};
    int64_t in[FV_MHA_ROLES];
    for (int i = 0; i < FV_MHA_ROLES; i++)
        in[i] = folded && outer[i]->data ? outer[i]->out : features[i];
    const int64_t q = s->heads * s->d_k, k = s->kv_heads * s->d_k, v = s->kv_heads * s->d_v;
    const rule rules[] = {
        {"outer_q", &w->outer_q, false, features[0], in[0], 0, 0},
        {"outer_k", &w->outer_k, false, features[1], in[1], 0, 0},
        {"outer_v", &w->outer_v, false, features[2], in[2], 0, 0},
        {"q", &w->q, each && !given, in[0], q, s->heads, w->q_head_stride},
        {"k", &w->k, three && !given, in[1], k, s->kv_heads, w->k_head_stride},
        {"v", &w->v, three, in[2], v, s->kv_heads, w->v_head_stride},
        {"o", &w->o, s->o_out > 0, s->heads * s->d_v, s->o_out, s->heads, w->o_head_stride},
        {"fused", &w->fused, fused, features[0], q + k + v, 0, 0},
    };
    fovea_status status = check_biases(d, w);
    for (size_t i = 0; status == FOVEA_OK && i < sizeof rules / sizeof rules[0]; i++) {
        const bool used = i < 3 ? folded : rules[i].required;
        if (used)
            status = check_matrix(&rules[i]);
        if (used && i < 3 && rules[i].matrix->data && rules[i].matrix->out < 1)
            status = fv_fail(FOVEA_ERROR_SHAPE, "weights: %s has no columns", rules[i].name);
    }
    for (int64_t h = 0; status == FOVEA_OK && given && h < s->heads; h++)
        status = check_matrix(&(rule){"merged", &w->merged[h], true, features[0], features[1], 0, 0});
    return status;
}

/* ----------------------------------------------------------------------------------------------------- gathering -- */

static const float *floats_of(const fovea_matrix *m) { return m->data; }

static bool make(fv_dense *d, int64_t in, int64_t out, bool bias) {
    int64_t floats;
    *d = (fv_dense){.in = in, .out = out};
    if (!fv_multiply(in, out, &floats) || floats > INT64_MAX / (int64_t)sizeof(float))
        return false;
    d->w = calloc((size_t)floats, sizeof(float));
    d->bias = bias ? calloc((size_t)out, sizeof(float)) : NULL;
    return d->w && (d->bias || !bias);
}

static void release(fv_dense *d) {
    free(d->w);
    free(d->bias);
    *d = (fv_dense){.in = 0};
}

void fv_mha_dense_free(fv_mha_dense *dense) {
    for (int i = 0; i < FV_MHA_ROLES; i++)
        release(&dense->role[i]);
    release(&dense->o);
}

/* Columns of a matrix, count from first on, to columns of d from at on. */
static void copy_columns(fv_dense *d, int64_t at, const float *data, const fovea_matrix *m, int64_t count) {
    for (int64_t i = 0; i < d->in; i++)
        for (int64_t j = 0; j < count; j++)
            d->w[i * d->out + at + j] = data[i * m->in_stride + j * m->out_stride];
}

/* A matrix whose columns are those of heads. */
static bool gather_heads(fv_dense *d, const fovea_matrix *m, int64_t head_stride, int64_t heads, const float *bias) {
    if (!make(d, m->in, m->out, bias))
        return false;
    const int64_t channels = m->out / heads, step = head_stride ? head_stride : channels * m->out_stride;
    for (int64_t h = 0; h < heads; h++)
        copy_columns(d, h * channels, floats_of(m) + h * step, m, channels);
    if (bias)
        memcpy(d->bias, bias, (size_t)m->out * sizeof(float));
    return true;
}

/* W^O, whose rows are those of heads. */
static bool gather_output(fv_dense *d, const fovea_matrix *m, int64_t head_stride, int64_t heads, const float *bias) {
    if (!make(d, m->in, m->out, bias))
        return false;
    const int64_t channels = m->in / heads, step = head_stride ? head_stride : channels * m->in_stride;
    for (int64_t i = 0; i < m->in; i++)
        for (int64_t j = 0; j < m->out; j++)
            d->w[i * m->out + j] = floats_of(m)[i / channels * step + i % channels * m->in_stride + j * m->out_stride];
    if (bias)
        memcpy(d->bias, bias, (size_t)m->out * sizeof(float));
    return true;
}

/* row[j] += a * b[j] */
static void add_row(double *row, double a, const float *b, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        row[j] += a * (double)b[j];
}

static void round_row(float *to, const double *row, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        to[j] = (float)row[j];
}

/* d = outer d, and the outer bias through d. */
static bool fold_outer(fv_dense *d, const fovea_matrix *outer, const float *outer_bias) {
    fv_dense inner = *d;
    *d = (fv_dense){.in = 0}; /* inner owns the memory from here on */
    double *row = calloc((size_t)inner.out, sizeof *row);
    bool ok = row && make(d, outer->in, inner.out, inner.bias || outer_bias);
    for (int64_t i = 0; ok && i <= outer->in; i++) { /* the last round is the bias */
        const bool last = i == outer->in;
        memset(row, 0, (size_t)inner.out * sizeof *row);
        if (last && !d->bias)
            break;
        for (int64_t k = 0; (!last || outer_bias) && k < inner.in; k++)
            add_row(row,
                    (double)(last ? outer_bias[k] : floats_of(outer)[i * outer->in_stride + k * outer->out_stride]),
                    inner.w + k * inner.out, inner.out);
        if (last && inner.bias)
            add_row(row, 1.0, inner.bias, inner.out);
        round_row(last ? d->bias : d->w + i * d->out, row, inner.out);
    }
    free(row);
    release(&inner);
    return ok;
}

/* W_i = W_i^Q W_i^K^T of each head as columns of d: [q_features, heads * k_features], or transposed for the keys. */
static bool merge_factors(fv_dense *d, const fv_mha_shape *s, const fv_dense *q, const fv_dense *k, bool keys) {
    const int64_t rows = keys ? k->in : q->in, columns = keys ? q->in : k->in, group = s->heads / s->kv_heads;
    if (!make(d, rows, s->heads * columns, q->bias))
        return false;
    for (int64_t h = 0; h < s->heads; h++) {
        const float *a = keys ? k->w + h / group * s->d_k : q->w + h * s->d_k;
        const float *b = keys ? q->w + h * s->d_k : k->w + h / group * s->d_k;
        const int64_t lda = keys ? k->out : q->out, ldb = keys ? q->out : k->out;
        for (int64_t i = 0; i <= rows; i++) { /* the last round is the bias of the queries */
            const float *left = i < rows ? a + i * lda : q->bias ? q->bias + h * s->d_k : NULL;
            float *to = i < rows ? d->w + i * d->out : d->bias;
            for (int64_t j = 0; left && j < columns; j++) {
                double sum = 0.0;
                for (int64_t c = 0; c < s->d_k; c++)
                    sum += (double)left[c] * (double)b[j * ldb + c];
                to[h * columns + j] = (float)sum;
            }
        }
    }
    return true;
}

static bool gather_merged(const fovea_mha_desc *d, const fv_mha_shape *s, const fovea_mha_weights *w,
                          fv_mha_dense *dense) {
    const bool keys = d->merge == FOVEA_MHA_MERGE_KEYS;
    fv_dense *to = &dense->role[keys ? FV_MHA_K : FV_MHA_Q];
    if (!w->merged) {
        fv_dense q = {.in = 0}, k = {.in = 0};
        const bool ok = gather_heads(&q, &w->q, w->q_head_stride, s->heads, w->q_bias) &&
                        gather_heads(&k, &w->k, w->k_head_stride, s->kv_heads, NULL) &&
                        merge_factors(to, s, &q, &k, keys);
        release(&q);
        release(&k);
        return ok;
    }
    const int64_t rows = w->merged->in, columns = w->merged->out;
    if (!make(to, keys ? columns : rows, s->heads * (keys ? rows : columns), false))
        return false;
    for (int64_t h = 0; h < s->heads; h++) {
        const fovea_matrix *m = &w->merged[h];
        const fovea_matrix turned = {
            .data = m->data, .in = m->out, .out = m->in, .in_stride = m->out_stride, .out_stride = m->in_stride};
        copy_columns(to, h * (keys ? rows : columns), m->data, keys ? &turned : m, keys ? rows : columns);
    }
    return true;
}

static bool gather_fused(const fv_mha_shape *s, const fovea_mha_weights *w, fv_mha_dense *dense) {
    const int64_t group = s->heads / s->kv_heads, span = (group + 1) * s->d_k + s->d_v;
    const int64_t whole[] = {0, s->heads * s->d_k, (s->heads + s->kv_heads) * s->d_k};
    const int64_t inside[] = {0, group * s->d_k, (group + 1) * s->d_k};
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const int64_t width = i == FV_MHA_Q ? group * s->d_k : i == FV_MHA_K ? s->d_k : s->d_v; /* of a key head */
        fv_dense *d = &dense->role[i];
        if (!make(d, w->fused.in, s->kv_heads * width, w->fused_bias))
            return false;
        for (int64_t g = 0; g < s->kv_heads; g++) {
            const int64_t from = w->order == FOVEA_MHA_ORDER_QKV ? whole[i] + g * width : g * span + inside[i];
            copy_columns(d, g * width, floats_of(&w->fused) + from * w->fused.out_stride, &w->fused, width);
            if (w->fused_bias)
                memcpy(d->bias + g * width, (const float *)w->fused_bias + from, (size_t)width * sizeof(float));
        }
    }
    return true;
}

static bool gather_each(const fovea_mha_desc *d, const fv_mha_shape *s, const fovea_mha_weights *w, int first,
                        fv_mha_dense *dense) {
    const fovea_matrix *m[] = {&w->q, &w->k, &w->v}, *outer[] = {&w->outer_q, &w->outer_k, &w->outer_v};
    const float *bias[] = {w->q_bias, w->k_bias, w->v_bias};
    const float *outer_bias[] = {w->outer_q_bias, w->outer_k_bias, w->outer_v_bias};
    const int64_t stride[] = {w->q_head_stride, w->k_head_stride, w->v_head_stride};
    const int last = d->form == FOVEA_MHA_TIED ? FV_MHA_Q : FV_MHA_V;
    for (int i = first; i <= last; i++) {
        if (!gather_heads(&dense->role[i], m[i], stride[i], i == FV_MHA_Q ? s->heads : s->kv_heads, bias[i]))
            return false;
        if (d->form == FOVEA_MHA_FOLDED && outer[i]->data && !fold_outer(&dense->role[i], outer[i], outer_bias[i]))
            return false;
    }
    return true;
}

/* W_i^V W_i^O, below each other, in place of W^O; W^V is no longer needed. */
static bool fold_values(const fv_mha_shape *s, fv_mha_dense *dense) {
    fv_dense o = dense->o, *v = &dense->role[FV_MHA_V];
    const int64_t group = s->heads / s->kv_heads;
    dense->o = (fv_dense){.in = 0}; /* o owns the memory from here on */
    double *row = calloc((size_t)o.out, sizeof *row);
    const bool ok = row && make(&dense->o, s->heads * v->in, o.out, o.bias);
    for (int64_t h = 0; ok && h < s->heads; h++)
        for (int64_t i = 0; i < v->in; i++) {
            memset(row, 0, (size_t)o.out * sizeof *row);
            for (int64_t c = 0; c < s->d_v; c++)
                add_row(row, (double)v->w[i * v->out + h / group * s->d_v + c], o.w + (h * s->d_v + c) * o.out, o.out);
            round_row(dense->o.w + (h * v->in + i) * o.out, row, o.out);
        }
    if (ok && o.bias)
        memcpy(dense->o.bias, o.bias, (size_t)o.out * sizeof(float));
    free(row);
    release(&o);
    release(v);
    return ok;
}

fovea_status fv_mha_gather(const fovea_mha_desc *d, const fv_mha_shape *s, const fovea_mha_weights *w,
                           fv_mha_dense *dense) {
    bool ok = true;
    *dense = (fv_mha_dense){.o = {.in = 0}};
    if (d->form == FOVEA_MHA_FUSED)
        ok = gather_fused(s, w, dense);
    else if (d->form == FOVEA_MHA_MERGED)
        ok = gather_merged(d, s, w, dense) && gather_each(d, s, w, FV_MHA_V, dense);
    else if (d->form != FOVEA_MHA_PROJECTED)
        ok = gather_each(d, s, w, FV_MHA_Q, dense);
    if (ok && s->o_out > 0)
        ok = gather_output(&dense->o, &w->o, w->o_head_stride, s->heads, w->o_bias);
    if (ok && s->fold)
        ok = fold_values(s, dense);
    if (ok)
        return FOVEA_OK;
    fv_mha_dense_free(dense);
    return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for copies of the layer's weights");
}
