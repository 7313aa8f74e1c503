/* The layer in every form. Each form against float64, and against form 1 (factored) of the same layer: by
 * bits where it is the same computation, else within rounding. Every tier, thread count and stride of the weights
 * against the scalar tier by bits. */
#include "attention_case.h"
#include "guard.h"
#include "mha_layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Within limit, a share of the largest. */
static void check_near(const float *got, const double *want, int64_t n, double limit, const char *what) {
    double worst = 0.0, largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - want[i]);
        worst = !(error <= worst) ? error : worst;
        largest = fabs(want[i]) > largest ? fabs(want[i]) : largest;
    }
    test_check(worst <= limit * (1 + largest) && largest > 0.01, "%s: off by %.3g of %.3g", what, worst, largest);
}

/* The same weights elsewhere, with gaps, which are poison, after rows and heads. */
enum { MOST_MATRICES = 16 };

typedef struct spread {
    bool turned; /* rows are output channels, not input channels */
    bool apart;  /* each head by itself */
    int64_t step;
    fovea_mha_weights w;
    fovea_matrix merged[MOST_MATRICES];
    float *memory[MOST_MATRICES];
    int count;
} spread;

/* m anew. The heads share its columns or, as in W^O, its rows; NULL: a matrix that cannot lie head by head. */
static void spread_matrix(spread *s, fovea_matrix *m, int64_t heads, bool by_rows, int64_t *head_stride) {
    if (!m->data)
        return;
    const fovea_matrix from = *m;
    const int64_t parts = s->apart && head_stride ? heads : 1;
    const int64_t in = by_rows ? from.in / parts : from.in, out = by_rows ? from.out : from.out / parts;
    const int64_t row = s->step * (s->turned ? in : out) + 3, part = (s->turned ? out : in) * row + 5;
    float *data = s->memory[s->count++] = must_alloc(parts * part, sizeof *data);
    poison_fill(data, parts * part);
    *m = (fovea_matrix){.data = data,
                        .dtype = FOVEA_DTYPE_F32,
                        .in = from.in,
                        .out = from.out,
                        .in_stride = s->turned ? s->step : row,
                        .out_stride = s->turned ? row : s->step};
    for (int64_t i = 0; i < from.in; i++)
        for (int64_t j = 0; j < from.out; j++)
            data[(by_rows ? i / in : j / out) * part + i % in * m->in_stride + j % out * m->out_stride] =
                ((const float *)from.data)[i * from.in_stride + j * from.out_stride];
    if (parts > 1)
        *head_stride = part;
}

static void spread_weights(spread *s, const layer *l, const fovea_mha_weights *from) {
    fovea_mha_weights *w = &s->w;
    *w = *from;
    spread_matrix(s, &w->q, l->heads, false, &w->q_head_stride);
    spread_matrix(s, &w->k, l->kv_heads, false, &w->k_head_stride);
    spread_matrix(s, &w->v, l->kv_heads, false, &w->v_head_stride);
    spread_matrix(s, &w->o, l->heads, true, &w->o_head_stride);
    fovea_matrix *whole[] = {&w->outer_q, &w->outer_k, &w->outer_v, &w->fused};
    for (int i = 0; i < 4; i++)
        spread_matrix(s, whole[i], 1, false, NULL);
    for (int64_t h = 0; w->merged && h < l->heads; h++) {
        s->merged[h] = w->merged[h];
        spread_matrix(s, &s->merged[h], 1, false, NULL);
    }
    w->merged = w->merged ? s->merged : NULL;
}

static void check_strides(const fovea_context *ctx, const layer *l, const fovea_mha_desc *desc,
                          const fovea_mha_weights *w, const fovea_attention_args *given, const float *same,
                          const char *what) {
    for (int i = 0; i < 8; i++) {
        spread s = {.turned = i & 1, .apart = i & 2, .step = i & 4 ? 2 : 1};
        fovea_attention_args args = *given;
        spread_weights(&s, l, w);
        float *out = layer_run_args(ctx, desc, &s.w, &args, layer_floats(l), what);
        test_same(out, same, layer_floats(l), "%s, weights with gaps and step %d%s%s", what, (int)s.step,
                  s.turned ? ", turned" : "", s.apart ? ", heads apart" : "");
        free(out);
        for (int k = 0; k < s.count; k++)
            free(s.memory[k]);
    }
}

/* The result that a form must give. */
typedef struct wanted {
    const double *exact; /* float64 */
    const float *form_1; /* of the same layer; NULL: this is it */
    bool bits;           /* the very bits of form 1 */
} wanted;

/* A form against what it must give, and its tiers, threads and strides against each other. */
static void check_form(const case_contexts *x, const layer *l, const fovea_mha_desc *desc, const fovea_mha_weights *w,
                       const wanted *want, const char *what) {
    const fovea_attention_args args = layer_args(l, NULL);
    float *scalar = layer_run(x->scalar, l, desc, w, what), *one = layer_run(x->one, l, desc, w, what);
    float *three = layer_run(x->three, l, desc, w, what);
    check_near(scalar, want->exact, layer_floats(l), 3e-6, what);
    test_same(one, scalar, layer_floats(l), "%s: one thread", what);
    test_same(three, scalar, layer_floats(l), "%s: three threads", what);
    check_strides(x->one, l, desc, w, &args, scalar, what);
    if (want->form_1 && want->bits)
        test_same(scalar, want->form_1, layer_floats(l), "%s against form 1", what);
    else if (want->form_1) {
        double *form_1 = doubles(want->form_1, layer_floats(l));
        char text[64];
        snprintf(text, sizeof text, "%s against form 1", what);
        check_near(scalar, form_1, layer_floats(l), 1e-6, text); /* three times what is usual */
        free(form_1);
    }
    float *all[] = {scalar, one, three};
    for (int i = 0; i < 3; i++)
        free(all[i]);
}

/* W_i from the factors, and given; by queries and by keys. */
static void check_merged(const case_contexts *x, const layer *l, const wanted *want) {
    fovea_mha_desc desc = l->desc;
    fovea_mha_weights w = l->w;
    desc.form = FOVEA_MHA_MERGED;
    check_form(x, l, &desc, &w, want, "merged from factors, (Q W) K^T");
    w.q_bias = NULL;
    fovea_mha_desc keys = desc;
    keys.merge = FOVEA_MHA_MERGE_KEYS;
    const bool by_keys = l->heads == l->kv_heads && !l->desc.biases;
    if (by_keys)
        check_form(x, l, &keys, &w, want, "merged from factors, Q (K W^T)^T");
    if (l->desc.biases)
        return;
    const int64_t size = l->features[0] * l->features[1];
    fovea_matrix *merged = must_alloc(l->heads, sizeof *merged);
    float *data = must_alloc(l->heads * size, sizeof *data);
    for (int64_t h = 0; h < l->heads; h++) {
        const int64_t g = h / (l->heads / l->kv_heads);
        for (int64_t i = 0; i < l->features[0]; i++)
            for (int64_t j = 0; j < l->features[1]; j++) {
                double sum = 0.0;
                for (int64_t c = 0; c < l->d_k; c++)
                    sum += l->exact[0][i * layer_columns(l, 0) + h * l->d_k + c] *
                           l->exact[1][j * layer_columns(l, 1) + g * l->d_k + c];
                data[h * size + j * l->features[0] + i] = (float)sum; /* transposed */
            }
        merged[h] = fovea_matrix_out_in(data + h * size, FOVEA_DTYPE_F32, l->features[1], l->features[0]);
    }
    w.q.data = w.k.data = NULL;
    w.merged = merged;
    check_form(x, l, &desc, &w, want, "merged, given, (Q W) K^T");
    if (by_keys)
        check_form(x, l, &keys, &w, want, "merged, given, Q (K W^T)^T");
    free(merged);
    free(data);
}

/* Outer maps before the heads' own: the layer whose matrices are their products. */
static void check_folded(const case_contexts *x, const layer_sizes *s, rng *r) {
    layer *l = layer_make(s, r);
    fovea_mha_desc desc = l->desc;
    fovea_mha_weights w = l->w;
    desc.form = FOVEA_MHA_FOLDED;
    const int64_t middle = 11;
    float *outer[3], *inner[3], *outer_bias[3], *inner_bias[3];
    for (int i = 0; i < 3; i++) {
        const int64_t in = layer_rows(l, i), out = layer_columns(l, i);
        outer[i] = normals(r, in * middle, 1 / sqrt((double)in));
        inner[i] = normals(r, middle * out, 1 / sqrt((double)middle));
        outer_bias[i] = normals(r, middle, 0.5);
        inner_bias[i] = normals(r, out, 0.5);
        for (int64_t k = 0; k < (s->biases ? in + 1 : in); k++) /* the last row is the bias */
            for (int64_t j = 0; j < out; j++) {
                double sum = 0.0;
                for (int64_t c = 0; c < middle; c++)
                    sum +=
                        (double)(k < in ? outer[i][k * middle + c] : outer_bias[i][c]) * (double)inner[i][c * out + j];
                sum += k < in ? 0.0 : (double)inner_bias[i][j];
                *(k < in ? &l->exact[i][k * out + j] : &l->bias_exact[i][j]) = sum;
                *(k < in ? &l->m[i][k * out + j] : &l->bias[i][j]) = (float)sum;
            }
    }
    w.outer_q = fovea_matrix_in_out(outer[0], FOVEA_DTYPE_F32, layer_rows(l, 0), middle);
    w.outer_k = fovea_matrix_in_out(outer[1], FOVEA_DTYPE_F32, layer_rows(l, 1), middle);
    w.outer_v = fovea_matrix_in_out(outer[2], FOVEA_DTYPE_F32, layer_rows(l, 2), middle);
    w.q = fovea_matrix_in_out(inner[0], FOVEA_DTYPE_F32, middle, layer_columns(l, 0));
    w.k = fovea_matrix_in_out(inner[1], FOVEA_DTYPE_F32, middle, layer_columns(l, 1));
    w.v = fovea_matrix_in_out(inner[2], FOVEA_DTYPE_F32, middle, layer_columns(l, 2));
    if (s->biases) {
        w.outer_q_bias = outer_bias[0];
        w.outer_k_bias = outer_bias[1];
        w.outer_v_bias = outer_bias[2];
        w.q_bias = inner_bias[0];
        w.k_bias = inner_bias[1];
        w.v_bias = inner_bias[2];
    }
    double *exact = layer_reference(l);
    float *form_1 = layer_run(x->scalar, l, &l->desc, &l->w, "products of folded matrices");
    check_form(x, l, &desc, &w, &(wanted){exact, form_1, true}, "folded"); /* rounded once, here as there */
    if (!s->biases) {
        desc.fold_values = FOVEA_MHA_FOLD_ALWAYS;
        check_form(x, l, &desc, &w, &(wanted){exact, form_1, false}, "folded, values too");
    }
    free(exact);
    free(form_1);
    for (int i = 0; i < 3; i++) {
        free(outer[i]);
        free(inner[i]);
        free(outer_bias[i]);
        free(inner_bias[i]);
    }
    layer_free(l);
}

/* The heads' inputs by fovea_linear, then the rest. */
static void check_projected(const case_contexts *x, const layer *l, const float *same) {
    const fovea_attention_desc *a = &l->attention;
    fovea_mha_desc desc = l->desc;
    desc.form = FOVEA_MHA_PROJECTED;
    desc.inputs = FOVEA_MHA_SEPARATE;
    fovea_attention_args args = layer_args(l, NULL);
    fovea_tensor *given[] = {&args.q, &args.k, &args.v};
    float *heads[3];
    for (int i = 0; i < 3; i++) {
        const int64_t count = i == 0 ? l->heads : l->kv_heads, channels = layer_columns(l, i) / count;
        fovea_linear_desc map;
        fovea_linear_args map_args;
        fovea_linear *linear;
        fovea_linear_desc_init(&map);
        fovea_linear_args_init(&map_args);
        map.in_features = l->features[i];
        map.part.weight = fovea_matrix_in_out(l->m[i], FOVEA_DTYPE_F32, l->features[i], layer_columns(l, i));
        map.part.bias = l->desc.biases ? l->bias[i] : NULL;
        heads[i] = must_alloc(a->batch * layer_tokens(l, i) * layer_columns(l, i), sizeof(float));
        map_args.x = fovea_tensor_bhtd(l->x[layer_input(l, i)], FOVEA_DTYPE_F32, a->batch, 1, layer_tokens(l, i),
                                       l->features[i]);
        *given[i] = fovea_tensor_bthd(heads[i], FOVEA_DTYPE_F32, a->batch, layer_tokens(l, i), count, channels);
        map_args.y = given[i];
        test_check(fovea_linear_create(x->one, &map, &linear) == FOVEA_OK, "%s", fovea_error_detail());
        test_check(fovea_linear_apply(x->one, linear, &map_args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
        fovea_linear_destroy(linear);
    }
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    w.o = l->w.o;
    w.o_bias = l->w.o_bias;
    float *out = layer_run_args(x->one, &desc, &w, &args, layer_floats(l), "already projected");
    test_same(out, same, layer_floats(l), "already projected");
    check_strides(x->one, l, &desc, &w, &args, same, "already projected");
    free(out);
    /* Nothing after: attention itself. */
    const int64_t n = a->batch * a->q_len * l->heads * l->d_v;
    float *want = must_alloc(n, sizeof *want);
    desc.out_features = 0;
    desc.biases = 0;
    fovea_mha_weights_init(&w);
    args.out = fovea_tensor_bhtd(want, FOVEA_DTYPE_F32, a->batch, l->heads, a->q_len, l->d_v);
    test_check(attention_once(x->one, a, &args) == FOVEA_OK, "%s", fovea_error_detail());
    out = layer_run_args(x->one, &desc, &w, &args, n, "no W^O");
    test_same(out, want, n, "already projected, nothing after");
    free(out);
    free(want);
    for (int i = 0; i < 3; i++)
        free(heads[i]);
}

/* One W for all three. */
static void check_tied(const case_contexts *x, const layer_sizes *s, rng *r) {
    if (s->heads != s->kv_heads || s->d_k != s->d_v || s->features[1] != s->features[0] ||
        s->features[2] != s->features[0])
        return;
    layer *l = layer_make(s, r);
    const int64_t in = layer_rows(l, 0), out = layer_columns(l, 0);
    for (int i = 1; i < 3; i++) {
        memcpy(l->m[i], l->m[0], (size_t)(in * out) * sizeof *l->m[i]);
        memcpy(l->bias[i], l->bias[0], (size_t)out * sizeof *l->bias[i]);
        memcpy(l->exact[i], l->exact[0], (size_t)(in * out) * sizeof *l->exact[i]);
        memcpy(l->bias_exact[i], l->bias_exact[0], (size_t)out * sizeof *l->bias_exact[i]);
    }
    double *exact = layer_reference(l);
    float *thrice = layer_run(x->scalar, l, &l->desc, &l->w, "thrice the same W");
    fovea_mha_desc desc = l->desc;
    fovea_mha_weights w;
    desc.form = FOVEA_MHA_TIED;
    fovea_mha_weights_init(&w);
    w.q = l->w.q;
    w.q_bias = l->w.q_bias;
    w.o = l->w.o;
    w.o_bias = l->w.o_bias;
    check_form(x, l, &desc, &w, &(wanted){exact, thrice, true}, "tied");
    free(exact);
    free(thrice);
    layer_free(l);
}

static void check_fused(const case_contexts *x, const layer *l, const wanted *want) {
    if (l->features[1] != l->features[0] || l->features[2] != l->features[0])
        return;
    const int64_t in = l->features[0], group = l->heads / l->kv_heads,
                  out = layer_columns(l, 0) + layer_columns(l, 1) + layer_columns(l, 2);
    const int64_t span = (group + 1) * l->d_k + l->d_v;
    float *fused = must_alloc(in * out, sizeof *fused), *bias = must_alloc(out, sizeof *bias);
    for (int order = 0; order < 2; order++) {
        fovea_mha_desc desc = l->desc;
        fovea_mha_weights w;
        desc.form = FOVEA_MHA_FUSED;
        fovea_mha_weights_init(&w);
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < layer_columns(l, i); j++) {
                const int64_t width = layer_columns(l, i) / l->kv_heads; /* of a key head */
                const int64_t before = i == 0   ? 0
                                       : i == 1 ? layer_columns(l, 0)
                                                : layer_columns(l, 0) + layer_columns(l, 1);
                const int64_t inside = i == 0 ? 0 : i == 1 ? group * l->d_k : (group + 1) * l->d_k;
                const int64_t at = order == 0 ? before + j : j / width * span + inside + j % width;
                bias[at] = l->bias[i][j];
                for (int64_t k = 0; k < in; k++)
                    fused[at * in + k] = l->m[i][k * layer_columns(l, i) + j];
            }
        w.fused = fovea_matrix_out_in(fused, FOVEA_DTYPE_F32, out, in);
        w.fused_bias = l->desc.biases ? bias : NULL;
        w.order = (fovea_mha_order)order;
        w.o = l->w.o;
        w.o_bias = l->w.o_bias;
        check_form(x, l, &desc, &w, want, order ? "fused, grouped" : "fused, q k v");
    }
    free(fused);
    free(bias);
}

static void test_forms(const case_contexts *x, const layer_sizes *s) {
    rng r = rng_stream(test_seed(), "forms");
    layer *l = layer_make(s, &r);
    double *exact = layer_reference(l);
    float *same = layer_run(x->scalar, l, &l->desc, &l->w, "factored");
    const wanted form_1 = {exact, NULL, false}, near = {exact, same, false}, bits = {exact, same, true};
    check_form(x, l, &l->desc, &l->w, &form_1, "factored");
    check_merged(x, l, &near);
    check_folded(x, s, &r);
    check_projected(x, l, same);
    check_tied(x, s, &r);
    check_fused(x, l, &bits);
    if (!s->biases) {
        fovea_mha_desc desc = l->desc;
        desc.fold_values = FOVEA_MHA_FOLD_ALWAYS;
        check_form(x, l, &desc, &l->w, &near, "values folded into W^O");
    }
    free(exact);
    free(same);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha", NULL);
    const case_contexts x = contexts_make();
    for (int i = 0; i < LAYER_SIZES; i++)
        test_forms(&x, &layer_sizes_tested[i]);
    contexts_free(&x);
    return test_end();
}
