/* Random layers (half_layer.h). */
#include "half_layer.h"

#include "attention_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static half_dense half_dense_make(int64_t in, int64_t out, fovea_dtype dtype, fovea_dtype bias, bool biased, rng *r) {
    return (half_dense){in, out, half_pair_make(in * out, dtype, 1.0f / sqrtf((float)in), r),
                        half_pair_make(out, bias, biased ? 0.5f : 0.0f, r), biased};
}

/* out = sum over k of a[k * a_stride] * b[k * b_stride], in double precision, k ascending. */
static double dot(int64_t n, const float *a, int64_t a_stride, const float *b, int64_t b_stride) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)a[k * a_stride] * (double)b[k * b_stride];
    return sum;
}

static fovea_dtype any(rng *r) { return half_pair_types[rng_below(r, HALF_PAIR_TYPES)]; }

int half_layer_input(const half_layer *p, int role) {
    return p->d.inputs == FOVEA_MHA_SELF ? 0 : p->d.inputs == FOVEA_MHA_CROSS && role == 2 ? 1 : role;
}

int64_t half_layer_heads(const half_layer *p, int role) { return role == 0 ? p->a.q_heads : p->a.kv_heads; }
int64_t half_layer_channels(const half_layer *p, int role) { return role == 2 ? p->a.value_dim : p->a.head_dim; }
int64_t half_layer_tokens(const half_layer *p, int role) { return role == 0 ? p->a.q_len : p->a.kv_len; }

static void draw_sizes(half_layer *p, rng *r) {
    fovea_attention_desc *a = &p->a;
    const bool tied = p->d.form == FOVEA_MHA_TIED, raw = p->d.form == FOVEA_MHA_PROJECTED;
    p->d.inputs = raw ? FOVEA_MHA_SEPARATE : (fovea_mha_inputs)rng_below(r, 3);
    a->batch = rng_between(r, 1, 3);
    a->q_len = rng_below(r, 12) == 0 ? 270 : rng_between(r, 1, 20);
    a->kv_len = p->d.inputs == FOVEA_MHA_SELF ? a->q_len : rng_between(r, 1, 30);
    a->kv_heads = rng_between(r, 1, 2);
    const bool equal = tied || (p->d.form == FOVEA_MHA_MERGED && p->d.merge == FOVEA_MHA_MERGE_KEYS);
    a->q_heads = a->kv_heads * (equal ? 1 : rng_between(r, 1, 2));
    a->head_dim = rng_between(r, 1, 20);
    a->value_dim = tied ? a->head_dim : rng_between(r, 1, 20);
    a->causal = (fovea_causal)rng_below(r, 3);
    p->features[0] = rng_between(r, 1, 40);
    for (int i = 1; i < HALF_ROLES; i++)
        p->features[i] = half_layer_input(p, i) != i || tied || p->d.form == FOVEA_MHA_FUSED
                             ? p->features[half_layer_input(p, i)]
                             : rng_between(r, 1, 40);
    if (tied || p->d.form == FOVEA_MHA_FUSED)
        p->features[1] = p->features[2] = p->features[0];
    for (int i = 0; raw && i < HALF_ROLES; i++)
        p->features[i] = half_layer_heads(p, i) * half_layer_channels(p, i);
    for (int side = 0; side < 2; side++)
        for (int64_t b = 0; b <= a->batch; b++) {
            p->lens[side][b % 3] = rng_between(r, 0, half_layer_tokens(p, side));
            p->ends[side][b] = b * half_layer_tokens(p, side);
        }
}

static void draw_types(half_layer *p, rng *r) {
    const fovea_dtype one = any(r);
    const bool mixed = rng_below(r, 2);
    for (int i = 0; i < HALF_ROLES; i++) {
        p->x_type[i] = half_layer_input(p, i) != i ? p->x_type[half_layer_input(p, i)] : mixed ? any(r) : one;
        p->outer_type[i] = mixed ? any(r) : one;
    }
    for (int i = 0; i < HALF_MATRICES; i++)
        p->w_type[i] = mixed ? any(r) : one;
    p->bias_type = any(r);
    p->a.dtype = p->x_type[0];
    p->a.k_dtype = p->x_type[1];
    p->a.v_dtype = p->x_type[2];
    p->a.out_dtype = mixed ? any(r) : one;
}

/* outer d, rounded once. */
static half_dense multiply_outer(const half_dense *outer, const half_dense *d) {
    const fovea_dtype dtype = outer->w.dtype == d->w.dtype ? d->w.dtype : FOVEA_DTYPE_F32;
    const half_dense y = {outer->in, d->out, half_pair_alloc(outer->in * d->out, dtype),
                          half_pair_alloc(d->out, FOVEA_DTYPE_F32), outer->biased || d->biased};
    for (int64_t j = 0; j < d->out; j++) {
        for (int64_t i = 0; i < outer->in; i++)
            half_pair_store(&y.w, i * d->out + j, dot(d->in, outer->w.wide + i * d->in, 1, d->w.wide + j, d->out));
        half_pair_store(&y.bias, j, dot(d->in, outer->bias.wide, 1, d->w.wide + j, d->out) + (double)d->bias.wide[j]);
    }
    return y;
}

/* The W_i of all heads side by side, of the queries or transposed for the keys. */
static half_dense merge(const half_layer *p, bool keys) {
    const half_dense *a = &p->m[keys], *b = &p->m[!keys];
    const int64_t heads = p->a.q_heads, group = heads / p->a.kv_heads, d_k = p->a.head_dim, columns = b->in;
    const fovea_dtype dtype = a->w.dtype == b->w.dtype ? a->w.dtype : FOVEA_DTYPE_F32;
    const half_dense y = {a->in, heads * columns, half_pair_alloc(a->in * heads * columns, dtype),
                          half_pair_alloc(heads * columns, FOVEA_DTYPE_F32), a->biased};
    for (int64_t h = 0; h < heads; h++) {
        const int64_t left = (keys ? h / group : h) * d_k, right = (keys ? h : h / group) * d_k;
        for (int64_t j = 0; j < columns; j++) {
            const float *row = b->w.wide + j * b->out + right;
            for (int64_t i = 0; i < a->in; i++)
                half_pair_store(&y.w, (i * heads + h) * columns + j,
                                dot(d_k, a->w.wide + i * a->out + left, 1, row, 1));
            half_pair_store(&y.bias, h * columns + j, dot(d_k, a->bias.wide + left, 1, row, 1));
        }
    }
    return y;
}

/* The same of matrices that are given for each head. */
static half_dense merge_given(half_layer *p, bool keys, rng *r) {
    const int64_t heads = p->a.q_heads, in = p->features[0], out = p->features[1];
    const int64_t rows = keys ? out : in, columns = keys ? in : out;
    const half_dense y = {rows, heads * columns, half_pair_alloc(heads * in * out, p->w_type[0]),
                          half_pair_alloc(heads * columns, FOVEA_DTYPE_F32), false};
    for (int64_t h = 0; h < heads; h++) {
        p->merged[h] = half_pair_make(in * out, p->w_type[0], 0.2f, r);
        for (int64_t i = 0; i < in; i++)
            for (int64_t j = 0; j < out; j++)
                y.w.wide[(keys ? j : i) * heads * columns + h * columns + (keys ? i : j)] =
                    p->merged[h].wide[i * out + j];
    }
    half_pair_round(&y.w, heads * in * out);
    return y;
}

/* Values through W^O: below each other. */
static half_dense multiply_values(const half_layer *p, const half_dense *v, const half_dense *o) {
    const int64_t heads = p->a.q_heads, group = heads / p->a.kv_heads, d_v = p->a.value_dim;
    const fovea_dtype dtype = v->w.dtype == o->w.dtype ? v->w.dtype : FOVEA_DTYPE_F32;
    const half_dense y = {heads * v->in, o->out, half_pair_alloc(heads * v->in * o->out, dtype),
                          half_pair_alloc(o->out, o->bias.dtype), o->biased};
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < v->in; i++)
            for (int64_t j = 0; j < o->out; j++)
                half_pair_store(
                    &y.w, (h * v->in + i) * o->out + j,
                    dot(d_v, v->w.wide + i * v->out + h / group * d_v, 1, o->w.wide + h * d_v * o->out + j, o->out));
    memcpy(y.bias.wide, o->bias.wide, (size_t)o->out * sizeof(float));
    half_pair_round(&y.bias, o->out);
    return y;
}

/* Columns of q, k and v in one matrix, in the description's order. */
static void fuse(half_layer *p, fovea_mha_order order) {
    const int64_t out = p->m[0].out + p->m[1].out + p->m[2].out, in = p->features[0], keys = p->a.kv_heads;
    p->fused = half_pair_alloc(in * out, p->w_type[0]);
    p->fused_bias = half_pair_alloc(out, p->bias_type);
    for (int i = 0; i < HALF_ROLES; i++)
        for (int64_t j = 0; j < p->m[i].out; j++) {
            const int64_t width = p->m[i].out / keys; /* of a key head */
            int64_t at = j;
            for (int before = 0; before < i; before++)
                at += order == FOVEA_MHA_ORDER_QKV ? p->m[before].out : p->m[before].out / keys;
            if (order == FOVEA_MHA_ORDER_GROUPED)
                at += j / width * (out / keys - width);
            p->fused_bias.wide[at] = p->m[i].bias.wide[j];
            for (int64_t c = 0; c < in; c++)
                p->fused.wide[c * out + at] = p->m[i].w.wide[c * p->m[i].out + j];
        }
    half_pair_round(&p->fused, in * out);
    half_pair_round(&p->fused_bias, out);
}

/* The operands of the layer, and its steps. */
static void make_weights(half_layer *p, rng *r) {
    const fovea_mha_form form = p->d.form;
    const bool fold = p->d.fold_values == FOVEA_MHA_FOLD_ALWAYS, fused = form == FOVEA_MHA_FUSED;
    const bool keys = p->d.merge == FOVEA_MHA_MERGE_KEYS, merged = form == FOVEA_MHA_MERGED;
    const bool biases = p->d.biases, raw = form == FOVEA_MHA_PROJECTED;
    for (int i = 0; i < HALF_MATRICES; i++) {
        const bool lost = i < 3 && fold && (i == 2 || fused); /* biases that the form cannot hold */
        const bool left = merged && (i == 1 || (i == 0 && (keys || p->given)));
        const bool biased = biases && !lost && !left;
        const int64_t rows = i == 3 ? p->a.q_heads * p->a.value_dim : p->features[i];
        const int64_t columns = i == 3 ? rng_between(r, 1, 40) : half_layer_heads(p, i) * half_layer_channels(p, i);
        const bool outer = form == FOVEA_MHA_FOLDED && i < 3 && rng_below(r, 3);
        const int64_t inner = outer ? rng_between(r, 1, 40) : rows;
        if (outer)
            p->outer[i] = half_dense_make(rows, inner, p->outer_type[i], p->bias_type, biased && rng_below(r, 2), r);
        p->m[i] = half_dense_make(inner, columns, p->w_type[fused && i < 3 ? 0 : i], p->bias_type, biased, r);
        p->step[i] = outer ? multiply_outer(&p->outer[i], &p->m[i]) : p->m[i];
    }
    if (form == FOVEA_MHA_TIED)
        p->step[1] = p->step[2] = p->m[0];
    if (merged) {
        p->step[keys] = p->given ? merge_given(p, keys, r) : merge(p, keys);
        p->step[!keys].in = 0;
    }
    if (fused)
        fuse(p, p->order = (fovea_mha_order)rng_below(r, 2));
    if (fold) {
        const half_dense v = p->step[2];
        p->step[3] = multiply_values(p, &v, &p->m[3]);
        p->step[2].in = 0;
    }
    for (int i = 0; raw && i < HALF_ROLES; i++)
        p->step[i].in = 0;
    if (p->d.out_features)
        p->d.out_features = p->m[3].out;
    else
        p->step[3].in = 0;
}

void half_layer_make(half_layer *p, rng *r) {
    *p = (half_layer){.given = rng_below(r, 2), .packed = rng_below(r, 3) == 0};
    fovea_attention_desc_init(&p->a);
    fovea_mha_desc_init(&p->d);
    p->d.attention = &p->a;
    p->d.form = (fovea_mha_form)rng_below(r, 6);
    p->d.merge = (fovea_mha_merge)rng_below(r, 2);
    p->d.out_features = rng_below(r, 4) ? 1 : 0;
    p->d.biases = (int)rng_below(r, 2);
    if (p->d.out_features && p->d.form != FOVEA_MHA_TIED && p->d.form != FOVEA_MHA_PROJECTED && rng_below(r, 3) == 0)
        p->d.fold_values = FOVEA_MHA_FOLD_ALWAYS;
    p->q_lens = !p->packed && rng_below(r, 3) == 0;
    p->kv_lens = rng_below(r, 3) == 0;
    draw_sizes(p, r);
    draw_types(p, r);
    make_weights(p, r);
    for (int i = 0; i < HALF_ROLES; i++)
        if (half_layer_input(p, i) == i)
            p->x[i] = half_pair_make(p->a.batch * half_layer_tokens(p, i) * p->features[i], p->x_type[i], 1.0f, r);
    const fovea_attention_desc *a = &p->a;
    snprintf(p->text, sizeof p->text,
             "form %d, merge %d, %sfold %d, inputs %d, types %d %d %d %d, weights %d %d %d %d, biases %d, order %d, "
             "%" PRId64 " x %" PRId64 " x %" PRId64 ", %" PRId64 " and %" PRId64 " heads%s%s%s",
             (int)p->d.form, (int)p->d.merge, p->given ? "given, " : "", (int)p->d.fold_values, (int)p->d.inputs,
             (int)a->dtype, (int)a->k_dtype, (int)a->v_dtype, (int)a->out_dtype, (int)p->w_type[0], (int)p->w_type[1],
             (int)p->w_type[2], (int)p->w_type[3], p->d.biases, (int)p->order, a->batch, a->q_len, a->kv_len,
             a->q_heads, a->kv_heads, p->packed ? ", packed" : "", p->q_lens ? ", q_lens" : "",
             p->kv_lens ? ", kv_lens" : "");
}
