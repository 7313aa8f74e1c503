/* Layers and their float64 reference (mha_layer.h). */
#include "mha_layer.h"

#include "attention_case.h"
#include "guard.h"

#include <math.h>
#include <stdlib.h>

float *normals(rng *r, int64_t n, double scale) {
    float *x = must_alloc(n, sizeof *x);
    rng_fill_normal(r, x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] *= (float)scale;
    return x;
}

double *doubles(const float *x, int64_t n) {
    double *y = must_alloc(n, sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = x ? x[i] : 0.0;
    return y;
}

int64_t layer_columns(const layer *l, int i) {
    return i == 0 ? l->heads * l->d_k : i == 1 ? l->kv_heads * l->d_k : i == 2 ? l->kv_heads * l->d_v : l->out;
}

int64_t layer_rows(const layer *l, int i) { return i < 3 ? l->features[i] : l->heads * l->d_v; }

const layer_sizes layer_sizes_tested[LAYER_SIZES] = {
    /* batch, q_len, kv_len, heads, kv_heads, d_k, d_v, features, out, inputs, causal, biases, lens */
    {2, 9, 9, 3, 3, 8, 8, {24, 24, 24}, 24, FOVEA_MHA_SELF, FOVEA_CAUSAL_NONE, false, false},
    {2, 19, 19, 4, 2, 16, 16, {40, 40, 40}, 33, FOVEA_MHA_SELF, FOVEA_CAUSAL_TOP_LEFT, true, true},
    {1, 300, 300, 2, 2, 12, 12, {20, 20, 20}, 20, FOVEA_MHA_SELF, FOVEA_CAUSAL_NONE, true, false},
    {2, 7, 31, 2, 1, 5, 9, {17, 13, 13}, 21, FOVEA_MHA_CROSS, FOVEA_CAUSAL_NONE, false, true},
    {3, 1, 40, 4, 4, 16, 16, {48, 48, 48}, 48, FOVEA_MHA_CROSS, FOVEA_CAUSAL_NONE, true, true},
    /* fused weights of key heads shared by two, d_k and d_v apart */
    {2, 11, 11, 4, 2, 6, 10, {20, 20, 20}, 14, FOVEA_MHA_SELF, FOVEA_CAUSAL_TOP_LEFT, true, true},
    {2, 5, 13, 6, 2, 9, 5, {20, 20, 20}, 14, FOVEA_MHA_CROSS, FOVEA_CAUSAL_NONE, false, true},
    /* as tf.keras.layers.MultiHeadAttention: T_q and T_k, key_dim and value_dim apart */
    {2, 6, 11, 3, 3, 24, 10, {24, 30, 18}, 7, FOVEA_MHA_SEPARATE, FOVEA_CAUSAL_NONE, true, false},
    /* as arXiv 1906.07510: d_k = d_model */
    {1, 8, 8, 2, 2, 32, 32, {32, 32, 32}, 32, FOVEA_MHA_SEPARATE, FOVEA_CAUSAL_NONE, false, false},
};

int layer_input(const layer *l, int i) {
    return l->desc.inputs == FOVEA_MHA_SELF ? 0 : l->desc.inputs == FOVEA_MHA_CROSS && i == 2 ? 1 : i;
}

int64_t layer_tokens(const layer *l, int i) { return i == 0 ? l->attention.q_len : l->attention.kv_len; }

layer *layer_make(const layer_sizes *s, rng *r) {
    layer *l = calloc(1, sizeof *l);
    if (!l)
        exit(1);
    *l = (layer){.heads = s->heads,
                 .kv_heads = s->kv_heads,
                 .d_k = s->d_k,
                 .d_v = s->d_v,
                 .out = s->out,
                 .features = {s->features[0], s->features[1], s->features[2]}};
    fovea_mha_desc *d = &l->desc;
    fovea_mha_desc_init(d);
    fovea_attention_desc_init(&l->attention);
    d->attention = &l->attention;
    d->inputs = s->inputs;
    d->q_features = s->features[0];
    d->k_features = s->features[1];
    d->v_features = s->features[2];
    d->out_features = s->out;
    d->biases = s->biases;
    l->attention.batch = s->batch;
    l->attention.q_heads = s->heads;
    l->attention.kv_heads = s->kv_heads;
    l->attention.q_len = s->q_len;
    l->attention.kv_len = s->kv_len;
    l->attention.head_dim = s->d_k;
    l->attention.value_dim = s->d_v;
    l->attention.causal = s->causal;
    fovea_mha_weights_init(&l->w);
    for (int i = 0; i < 4; i++) {
        const int64_t in = layer_rows(l, i), out = layer_columns(l, i);
        l->m[i] = normals(r, in * out, 1 / sqrt((double)in));
        l->exact[i] = doubles(l->m[i], in * out);
        l->bias[i] = normals(r, out, 0.5);
        if (i < 3) {
            l->x[i] = normals(r, s->batch * layer_tokens(l, i) * in, 1.0);
            l->bias_exact[i] = doubles(s->biases ? l->bias[i] : NULL, out);
        }
    }
    l->w.q = fovea_matrix_in_out(l->m[0], FOVEA_DTYPE_F32, layer_rows(l, 0), layer_columns(l, 0));
    l->w.k = fovea_matrix_in_out(l->m[1], FOVEA_DTYPE_F32, layer_rows(l, 1), layer_columns(l, 1));
    l->w.v = fovea_matrix_in_out(l->m[2], FOVEA_DTYPE_F32, layer_rows(l, 2), layer_columns(l, 2));
    l->w.o = fovea_matrix_in_out(l->m[3], FOVEA_DTYPE_F32, layer_rows(l, 3), layer_columns(l, 3));
    if (s->biases) {
        l->w.q_bias = l->bias[0];
        l->w.k_bias = l->bias[1];
        l->w.v_bias = l->bias[2];
        l->w.o_bias = l->bias[3];
    }
    if (s->lens) {
        l->kv_lens = must_alloc(s->batch, sizeof *l->kv_lens);
        for (int64_t b = 0; b < s->batch; b++)
            l->kv_lens[b] = rng_between(r, 1, s->kv_len);
    }
    return l;
}

void layer_free(layer *l) {
    for (int i = 0; i < 4; i++) {
        free(l->m[i]);
        free(l->bias[i]);
        free(l->exact[i]);
        if (i < 3) {
            free(l->x[i]);
            free(l->bias_exact[i]);
        }
    }
    free(l->kv_lens);
    free(l);
}

/* x W + b of role i in float64, [batch][tokens][columns]. */
static double *project(const layer *l, int i) {
    const int64_t rows = l->attention.batch * layer_tokens(l, i), in = layer_rows(l, i), out = layer_columns(l, i);
    const float *x = l->x[layer_input(l, i)];
    double *y = must_alloc(rows * out, sizeof *y);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < out; j++) {
            double sum = l->bias_exact[i][j];
            for (int64_t k = 0; k < in; k++)
                sum += (double)x[r * in + k] * l->exact[i][k * out + j];
            y[r * out + j] = sum;
        }
    return y;
}

double *layer_reference(const layer *l) {
    const fovea_attention_desc *a = &l->attention;
    double *q = project(l, 0), *k = project(l, 1), *v = project(l, 2);
    double *y = must_alloc(a->batch * a->q_len * l->out, sizeof *y), *p = must_alloc(a->kv_len, sizeof *p);
    double *heads = must_alloc(l->heads * l->d_v, sizeof *heads);
    for (int64_t row = 0; row < a->batch * a->q_len; row++) {
        const int64_t b = row / a->q_len, i = row % a->q_len;
        int64_t seen = l->kv_lens ? l->kv_lens[b] : a->kv_len;
        if (a->causal == FOVEA_CAUSAL_TOP_LEFT && i + 1 < seen)
            seen = i + 1;
        for (int64_t h = 0; h < l->heads; h++) {
            const int64_t g = h / (l->heads / l->kv_heads);
            double highest = -INFINITY, sum = 0.0;
            for (int64_t j = 0; j < seen; j++) {
                p[j] = 0.0;
                for (int64_t c = 0; c < l->d_k; c++)
                    p[j] += q[row * layer_columns(l, 0) + h * l->d_k + c] *
                            k[(b * a->kv_len + j) * layer_columns(l, 1) + g * l->d_k + c] / sqrt((double)l->d_k);
                highest = p[j] > highest ? p[j] : highest;
            }
            for (int64_t j = 0; j < seen; j++)
                sum += p[j] = exp(p[j] - highest);
            for (int64_t c = 0; c < l->d_v; c++) {
                double o = 0.0;
                for (int64_t j = 0; j < seen; j++)
                    o += p[j] * v[(b * a->kv_len + j) * layer_columns(l, 2) + g * l->d_v + c];
                heads[h * l->d_v + c] = o / sum;
            }
        }
        for (int64_t j = 0; j < l->out; j++) {
            double o = l->desc.biases ? l->bias[3][j] : 0.0;
            for (int64_t c = 0; c < l->heads * l->d_v; c++)
                o += heads[c] * l->exact[3][c * l->out + j];
            y[row * l->out + j] = o;
        }
    }
    double *all[] = {q, k, v, p, heads};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    return y;
}

int64_t layer_floats(const layer *l) { return l->attention.batch * l->attention.q_len * l->out; }

fovea_attention_args layer_args(const layer *l, float *out) {
    const fovea_attention_desc *a = &l->attention;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    fovea_tensor *given[] = {&args.q, &args.k, &args.v};
    for (int i = 0; i < 3; i++)
        if (layer_input(l, i) == i)
            *given[i] = fovea_tensor_bhtd(l->x[i], FOVEA_DTYPE_F32, a->batch, 1, layer_tokens(l, i), l->features[i]);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, a->batch, 1, a->q_len, l->out);
    args.kv_lens = l->kv_lens;
    return args;
}

float *layer_run_args(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *w,
                      fovea_attention_args *args, int64_t n, const char *what) {
    float *out = must_alloc(n, sizeof *out);
    poison_fill(out, n);
    args->out.data = out;
    fovea_mha *mha;
    if (!test_check(fovea_mha_create(ctx, desc, w, &mha) == FOVEA_OK, "%s: %s", what, fovea_error_detail()))
        return out;
    const size_t size = fovea_mha_workspace_size(mha);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    test_check(fovea_mha_execute(mha, args, workspace->data, size) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    guard_free(workspace);
    fovea_mha_destroy(mha);
    return out;
}

float *layer_run(const fovea_context *ctx, const layer *l, const fovea_mha_desc *desc, const fovea_mha_weights *w,
                 const char *what) {
    fovea_attention_args args = layer_args(l, NULL);
    return layer_run_args(ctx, desc, w, &args, layer_floats(l), what);
}
