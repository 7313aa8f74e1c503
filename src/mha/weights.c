/* Checking and gathering a layer's weights: whatever the form and strides, each map becomes a dense [in, out] matrix of
 * the weights' own type, or of products of them (fold.c). Serial, and the same bits everywhere; done once for a
 * model. */
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/linear.h"
#include "mha/mha.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- checks -- */

static const char bias_types[] = "biases are FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 or FOVEA_DTYPE_F16";
static const char factor_types[] = "it is multiplied into other weights, and must be FOVEA_DTYPE_F32, _BF16 or _F16";

typedef struct rule {
    const char *name;
    const fovea_matrix *matrix;
    bool required;
    int64_t in, out;
    int64_t heads, head_stride; /* of the side that has heads */
    bool factor;                /* the layer multiplies it into other weights */
    bool rows, whole;           /* heads are of rows; weights of several roles are one matrix */
} rule;

/* int8 with a scale for each output channel: the only integers that are copied head by head. */
static bool columns_scaled(const fovea_matrix *m) { return m->dtype == FOVEA_DTYPE_I8 && m->quantization->scales; }

static bool in_groups(const fovea_matrix *m) { return fv_dtype_quantized(m->dtype) && !columns_scaled(m); }

static fovea_status check_matrix(const rule *r) {
    const fovea_matrix *m = r->matrix;
    if (!m->data)
        return r->required ? fv_fail(FOVEA_ERROR_NULL, "weights: %s is NULL", r->name) : FOVEA_OK;
    if (m->in != r->in || m->out != r->out)
        return fv_fail(FOVEA_ERROR_SHAPE, "weights: %s is %lld x %lld, but the description says %lld x %lld", r->name,
                       (long long)m->in, (long long)m->out, (long long)r->in, (long long)r->out);
    if (r->head_stride < 0)
        return fv_fail(FOVEA_ERROR_STRIDE, "weights: %s has a negative stride of heads (%lld)", r->name,
                       (long long)r->head_stride);
    char field[48];
    const bool quantized = fv_dtype_quantized(m->dtype) && fv_dtype_built(m->dtype);
    if (fv_type_of(m->dtype) == FV_TYPE_COUNT && (r->factor || !quantized)) {
        snprintf(field, sizeof field, "weights: dtype of %s", r->name);
        return fv_dtype_refuse(field, m->dtype, r->factor ? factor_types : fv_linear_weight_types);
    }
    snprintf(field, sizeof field, "weights: %s", r->name);
    const fovea_status status = fv_quantized_check(m, field);
    if (status != FOVEA_OK)
        return status;
    const int64_t stride = r->rows ? m->in_stride : m->out_stride; /* anything where it is ignored */
    int64_t heads, all;
    const bool adjacent = stride >= 0 && fv_multiply(r->heads, r->head_stride, &heads) &&
                          fv_multiply(r->rows ? m->in : m->out, stride, &all) && heads == all;
    if (in_groups(m) && (r->whole || (r->head_stride && !adjacent)))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "%s is quantized in groups or blocks, and its heads are %s", field,
                       r->whole ? "fused: give q, k and v" : "not adjacent");
    if (!fv_multiply(r->heads, r->head_stride, &heads) || !fv_multiply(heads, 16, &heads))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "weights: the strides of %s exceed the address space", r->name);
    return FOVEA_OK;
}

static fovea_status check_biases(const fovea_mha_desc *d, const fovea_mha_weights *w) {
    const bool folded = d->form == FOVEA_MHA_FOLDED, each = d->form < FOVEA_MHA_PROJECTED;
    const struct {
        const char *name;
        const void *bias;
        bool used;
        const char *lacks; /* what the bias needs besides a form that takes it */
    } all[] = {{"q_bias", w->q_bias, each || d->form == FOVEA_MHA_TIED, NULL},
               {"k_bias", w->k_bias, each, NULL},
               {"v_bias", w->v_bias, each, NULL},
               {"o_bias", w->o_bias, true, d->out_features > 0 ? NULL : "out_features is 0"},
               {"outer_q_bias", w->outer_q_bias, folded, w->outer_q.data ? NULL : "outer_q is absent"},
               {"outer_k_bias", w->outer_k_bias, folded, w->outer_k.data ? NULL : "outer_k is absent"},
               {"outer_v_bias", w->outer_v_bias, folded, w->outer_v.data ? NULL : "outer_v is absent"},
               {"fused_bias", w->fused_bias, d->form == FOVEA_MHA_FUSED, NULL}};
    if (fv_type_of(w->bias_dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse("weights: bias_dtype", w->bias_dtype, bias_types);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].bias && !d->biases)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but biases is 0", all[i].name);
        if (all[i].bias && !all[i].used)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but form is %s, which does not use it",
                           all[i].name, fv_enum_name(FV_ENUM_mha_form, (int)d->form));
        if (all[i].bias && all[i].lacks)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "weights: %s is given, but %s", all[i].name, all[i].lacks);
    }
    const bool heads = d->form == FOVEA_MHA_FACTORED || folded || d->form == FOVEA_MHA_FUSED;
    if ((w->q_norm || w->k_norm) && !heads)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "weights: %s: form %s has no heads of its own to normalize",
                       w->q_norm ? "q_norm" : "k_norm", fv_enum_name(FV_ENUM_mha_form, (int)d->form));
    if (d->form == FOVEA_MHA_MERGED && w->k_bias && (d->attention->softcap > 0.0 || d->attention->has_sinks))
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "k_bias: form FOVEA_MHA_MERGED cannot add it to the scores, and %s depends on it",
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
    return fv_struct_read(FV_STRUCT(fovea_mha_weights), given, w);
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
        {"outer_q", &w->outer_q, false, features[0], in[0], 0, 0, true, false, false},
        {"outer_k", &w->outer_k, false, features[1], in[1], 0, 0, true, false, false},
        {"outer_v", &w->outer_v, false, features[2], in[2], 0, 0, true, false, false},
        {"q", &w->q, each && !given, in[0], q, s->heads, w->q_head_stride, false, false, false},
        {"k", &w->k, three && !given, in[1], k, s->kv_heads, w->k_head_stride, false, false, false},
        {"v", &w->v, three, in[2], v, s->kv_heads, w->v_head_stride, false, false, false},
        {"o", &w->o, s->o_out > 0, s->heads * s->d_v, s->o_out, s->heads, w->o_head_stride, false, true, false},
        {"fused", &w->fused, fused, features[0], q + k + v, 0, 0, false, false, true},
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
        status =
            check_matrix(&(rule){"merged", &w->merged[h], true, features[0], features[1], 0, 0, true, false, true});
    return status;
}

/* ----------------------------------------------------------------------------------------------------- gathering -- */

/* The source of weights: the caller's, and the target whose kernels convert them. */
typedef struct source {
    const fovea_mha_weights *w;
    fv_target target;
    /* Nothing is multiplied into the weights: integers stay that, else they become the floats that they stand for. */
    bool keeps_integers;
} source;

static bool make_dense(const source *s, fv_dense *d, int64_t in, int64_t out, fovea_dtype dtype, bool bias) {
    return fv_dense_make(d, in, out, !s->keeps_integers && fv_dtype_scaled(dtype) ? FOVEA_DTYPE_F32 : dtype, bias);
}

/* in rows of count columns of a matrix, from its column `column` on, to a row of d and to its columns from at on. from:
 * where they begin in memory. */
static void copy_part(const source *s, fv_dense *d, int64_t row, int64_t at, const fovea_matrix *m, int64_t from,
                      int64_t in, int64_t column, int64_t count) {
    const fv_operand all = {.columns = d->out, .steps = d->in, .row = d->out, .format = fv_format_as_it_lies(d->dtype)};
    fv_matrix part = fv_linear_source(m, s->target);
    part.data = (const char *)m->data + fv_dtype_bytes(m->dtype, from);
    part.steps = in;
    part.columns = count;
    part.scales = part.scales ? part.scales + column : NULL;
    fv_pack_any(&part, &all, (char *)d->w + fv_dtype_bytes(d->dtype, row * d->out), at);
    if (d->scales)
        memcpy(d->scales + at, part.scales, (size_t)count * sizeof *d->scales);
}

static void copy_bias(const source *s, float *to, const void *bias, int64_t from, int64_t count) {
    const fovea_dtype dtype = s->w->bias_dtype;
    if (bias)
        fv_to_floats(count, (const char *)bias + from * fv_dtype_size(dtype), 1, dtype, to, s->target);
}

/* A matrix of groups or blocks: the caller's as it is, or, if something is multiplied into it, its numbers. */
static bool gather_groups(const source *s, fv_dense *d, const fovea_matrix *m, const void *bias) {
    if (s->keeps_integers) {
        *d = (fv_dense){.in = m->in, .out = m->out, .dtype = m->dtype, .given = m};
    } else {
        float *column = malloc((size_t)m->in * sizeof *column);
        const bool ok = column && fv_dense_make(d, m->in, m->out, FOVEA_DTYPE_F32, false);
        for (int64_t o = 0; ok && o < m->out; o++) {
            fv_quantized_numbers(m, o, 1, column);
            for (int64_t i = 0; i < m->in; i++)
                ((float *)d->w)[i * m->out + o] = column[i];
        }
        free(column);
        if (!ok)
            return false;
    }
    d->bias = bias ? calloc((size_t)d->out, sizeof *d->bias) : NULL;
    if (!d->bias)
        return !bias;
    copy_bias(s, d->bias, bias, 0, d->out);
    return true;
}

/* A matrix whose columns are those of heads. */
static bool gather_heads(const source *s, fv_dense *d, const fovea_matrix *m, int64_t head_stride, int64_t heads,
                         const void *bias) {
    if (in_groups(m))
        return gather_groups(s, d, m, bias);
    if (!make_dense(s, d, m->in, m->out, m->dtype, bias))
        return false;
    const int64_t channels = m->out / heads, step = head_stride ? head_stride : channels * m->out_stride;
    for (int64_t h = 0; h < heads; h++)
        copy_part(s, d, 0, h * channels, m, h * step, m->in, h * channels, channels);
    copy_bias(s, d->bias, bias, 0, m->out);
    return true;
}

/* W^O, whose rows are those of heads. */
static bool gather_output(const source *s, fv_dense *d, int64_t heads) {
    const fovea_matrix *m = &s->w->o;
    if (in_groups(m))
        return gather_groups(s, d, m, s->w->o_bias);
    if (!make_dense(s, d, m->in, m->out, m->dtype, s->w->o_bias))
        return false;
    const int64_t channels = m->in / heads, step = s->w->o_head_stride ? s->w->o_head_stride : channels * m->in_stride;
    for (int64_t h = 0; h < heads; h++)
        copy_part(s, d, h * channels, 0, m, h * step, channels, 0, m->out);
    copy_bias(s, d->bias, s->w->o_bias, 0, m->out);
    return true;
}

/* The W_i of all heads side by side, or, for the keys, transposed. */
static bool gather_given(const source *s, fv_dense *d, int64_t heads, bool keys) {
    const fovea_matrix *all = s->w->merged;
    const int64_t rows = keys ? all->out : all->in, columns = keys ? all->in : all->out;
    fovea_dtype dtype = all->dtype;
    for (int64_t h = 1; h < heads; h++)
        dtype = all[h].dtype == dtype ? dtype : FOVEA_DTYPE_F32;
    if (!fv_dense_make(d, rows, heads * columns, dtype, false))
        return false;
    for (int64_t h = 0; h < heads; h++) {
        fovea_matrix m = all[h];
        if (keys)
            m = (fovea_matrix){m.data, m.dtype, m.out, m.in, m.out_stride, m.in_stride, NULL}; /* no integers */
        copy_part(s, d, 0, h * columns, &m, 0, rows, 0, columns);
    }
    return true;
}

static bool gather_merged(const source *from, const fovea_mha_desc *d, const fv_mha_shape *s, fv_mha_dense *dense) {
    const fovea_mha_weights *w = from->w;
    const bool keys = d->merge == FOVEA_MHA_MERGE_KEYS;
    fv_dense *to = &dense->role[keys ? FV_MHA_K : FV_MHA_Q];
    if (w->merged)
        return gather_given(from, to, s->heads, keys);
    fv_dense q = {.in = 0}, k = {.in = 0};
    const bool ok = gather_heads(from, &q, &w->q, w->q_head_stride, s->heads, w->q_bias) &&
                    gather_heads(from, &k, &w->k, w->k_head_stride, s->kv_heads, NULL) &&
                    fv_fold_factors(to, s, &q, &k, keys, from->target);
    fv_dense_free(&q);
    fv_dense_free(&k);
    return ok;
}

static bool gather_fused(const source *from, const fv_mha_shape *s, fv_mha_dense *dense) {
    const fovea_mha_weights *w = from->w;
    const int64_t group = s->heads / s->kv_heads, span = (group + 1) * s->d_k + s->d_v;
    const int64_t whole[] = {0, s->heads * s->d_k, (s->heads + s->kv_heads) * s->d_k};
    const int64_t inside[] = {0, group * s->d_k, (group + 1) * s->d_k};
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const int64_t width = i == FV_MHA_Q ? group * s->d_k : i == FV_MHA_K ? s->d_k : s->d_v; /* of a key head */
        fv_dense *d = &dense->role[i];
        if (!make_dense(from, d, w->fused.in, s->kv_heads * width, w->fused.dtype, w->fused_bias))
            return false;
        for (int64_t g = 0; g < s->kv_heads; g++) {
            const int64_t at = w->order == FOVEA_MHA_ORDER_QKV ? whole[i] + g * width : g * span + inside[i];
            copy_part(from, d, 0, g * width, &w->fused, at * w->fused.out_stride, d->in, at, width);
            copy_bias(from, d->bias + g * width, w->fused_bias, at, width);
        }
    }
    return true;
}

/* An outer matrix multiplied into a role's. */
static bool gather_outer(const source *s, fv_dense *d, const fovea_matrix *outer, const void *outer_bias) {
    float *bias = outer_bias ? calloc((size_t)outer->out, sizeof *bias) : NULL;
    if (outer_bias && !bias)
        return false;
    copy_bias(s, bias, outer_bias, 0, outer->out);
    const bool ok = fv_fold_outer(d, outer, bias, s->target);
    free(bias);
    return ok;
}

static bool gather_each(const source *from, const fovea_mha_desc *d, const fv_mha_shape *s, int first,
                        fv_mha_dense *dense) {
    const fovea_mha_weights *w = from->w;
    const fovea_matrix *m[] = {&w->q, &w->k, &w->v}, *outer[] = {&w->outer_q, &w->outer_k, &w->outer_v};
    const void *bias[] = {w->q_bias, w->k_bias, w->v_bias};
    const void *outer_bias[] = {w->outer_q_bias, w->outer_k_bias, w->outer_v_bias};
    const int64_t stride[] = {w->q_head_stride, w->k_head_stride, w->v_head_stride};
    const int last = d->form == FOVEA_MHA_TIED ? FV_MHA_Q : FV_MHA_V;
    for (int i = first; i <= last; i++) {
        if (!gather_heads(from, &dense->role[i], m[i], stride[i], i == FV_MHA_Q ? s->heads : s->kv_heads, bias[i]))
            return false;
        if (d->form == FOVEA_MHA_FOLDED && outer[i]->data &&
            !gather_outer(from, &dense->role[i], outer[i], outer_bias[i]))
            return false;
    }
    return true;
}

fovea_status fv_mha_gather(const fovea_mha_desc *d, const fv_mha_shape *s, const fovea_mha_weights *w, fv_target target,
                           fv_mha_dense *dense) {
    const bool multiplied = d->form == FOVEA_MHA_MERGED || d->form == FOVEA_MHA_FOLDED || s->fold;
    const source from = {w, target, !multiplied};
    bool ok = true;
    *dense = (fv_mha_dense){.o = {.in = 0}};
    if (d->form == FOVEA_MHA_FUSED)
        ok = gather_fused(&from, s, dense);
    else if (d->form == FOVEA_MHA_MERGED)
        ok = gather_merged(&from, d, s, dense) && gather_each(&from, d, s, FV_MHA_V, dense);
    else if (d->form != FOVEA_MHA_PROJECTED)
        ok = gather_each(&from, d, s, FV_MHA_Q, dense);
    if (ok && s->o_out > 0)
        ok = gather_output(&from, &dense->o, s->heads);
    if (ok && s->fold)
        ok = fv_fold_values(s, dense, target);
    if (ok)
        return FOVEA_OK;
    fv_mha_dense_free(dense);
    return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for copies of the layer's weights");
}
