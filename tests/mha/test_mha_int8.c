/* Layers of int8 weights with a scale for each output channel have the bits of layers of float32 weights on the numbers
 * that these stand for, in every form; and what is refused. */
#include "attention_case.h"
#include "mha_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* q, k, v, o: integers, and the floats that they stand for. */
typedef struct int8_layer {
    int8_t *integers[4];
    float *scales[4];
    fovea_quantization quantization[4];
    fovea_mha_weights plain, quantized;
} int8_layer;

static fovea_matrix *matrix_of(fovea_mha_weights *w, int i) {
    fovea_matrix *const all[] = {&w->q, &w->k, &w->v, &w->o};
    return all[i];
}

/* Replaces the layer's floats. */
static int8_layer quantize(layer *l, rng *r) {
    int8_layer x = {.plain = l->w, .quantized = l->w};
    for (int i = 0; i < 4; i++) {
        const fovea_matrix m = *matrix_of(&l->w, i);
        if (!m.data)
            continue;
        x.integers[i] = must_alloc(m.in * m.out, 1);
        x.scales[i] = must_alloc(m.out, sizeof(float));
        for (int64_t o = 0; o < m.out; o++)
            x.scales[i][o] = rng_unit(r) / 256;
        for (int64_t at = 0; at < m.in * m.out; at++)
            x.integers[i][at] = (int8_t)rng_between(r, -127, 127);
        for (int64_t in = 0; in < m.in; in++)
            for (int64_t o = 0; o < m.out; o++) {
                const int64_t at = in * m.in_stride + o * m.out_stride;
                l->m[i][at] = x.scales[i][o] * (float)x.integers[i][at];
            }
        fovea_quantization_init(&x.quantization[i]);
        x.quantization[i].scales = x.scales[i];
        fovea_matrix *q = matrix_of(&x.quantized, i);
        q->data = x.integers[i];
        q->dtype = FOVEA_DTYPE_I8;
    }
    return x;
}

/* A struct of quantizations moves when it is returned: they are pointed to here. */
static void point(int8_layer *x) {
    for (int i = 0; i < 4; i++)
        if (x->integers[i])
            matrix_of(&x->quantized, i)->quantization = &x->quantization[i];
}

static void same(const fovea_context *ctx, const layer *l, const fovea_mha_desc *desc, const int8_layer *x,
                 const char *form, int sizes) {
    char what[64];
    snprintf(what, sizeof what, "%s, sizes %d", form, sizes);
    float *want = layer_run(ctx, l, desc, &x->plain, what), *got = layer_run(ctx, l, desc, &x->quantized, what);
    if (want && got)
        test_same(got, want, layer_floats(l), "%s: int8 weights", what);
    free(want);
    free(got);
}

static void test_forms(const fovea_context *ctx) {
    for (int i = 0; i < LAYER_SIZES; i++) {
        rng r = rng_stream(test_seed() + (uint64_t)i, "int8 layers");
        layer *l = layer_make(&layer_sizes_tested[i], &r);
        int8_layer x = quantize(l, &r);
        point(&x);
        l->desc.quantized_arithmetic = FOVEA_ARITHMETIC_EXACT;
        same(ctx, l, &l->desc, &x, "factored", i);
        fovea_mha_desc desc = l->desc;
        if (!l->w.k_bias && !l->w.q_bias) {
            desc.form = FOVEA_MHA_MERGED;
            same(ctx, l, &desc, &x, "merged queries", i);
            desc.merge = FOVEA_MHA_MERGE_KEYS;
            if (l->kv_heads == l->heads)
                same(ctx, l, &desc, &x, "merged keys", i);
        }
        desc = l->desc;
        fovea_mha_weights plain = x.plain;
        x.plain.k.dtype = FOVEA_DTYPE_F32; /* one of floats among the integers */
        x.quantized.k = plain.k;
        same(ctx, l, &desc, &x, "keys of floats", i);
        for (int m = 0; m < 4; m++) {
            free(x.integers[m]);
            free(x.scales[m]);
        }
        layer_free(l);
    }
}

static void test_errors(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "int8 errors");
    layer *l = layer_make(&layer_sizes_tested[0], &r);
    int8_layer x = quantize(l, &r);
    point(&x);
    fovea_mha *made = NULL;
    x.quantized.q.quantization = NULL;
    test_check(fovea_mha_create(ctx, &l->desc, &x.quantized, &made) == FOVEA_ERROR_NULL && !made &&
                   strstr(fovea_error_detail(), "weights: q is FOVEA_DTYPE_I8, but has no quantization"),
               "without scales: %s", fovea_error_detail());
    x.plain.v.quantization = &x.quantization[2];
    test_check(fovea_mha_create(ctx, &l->desc, &x.plain, &made) == FOVEA_ERROR_DTYPE && !made, "scales of floats: %s",
               fovea_error_detail());
    /* W_i are multiplied with, whichever side they become: they are floats, in one type or several. */
    static const int8_t integers[1 << 16];
    fovea_matrix given[16];
    for (int keys = 0; keys < 2; keys++) {
        fovea_mha_desc desc = l->desc;
        fovea_mha_weights w = x.quantized;
        desc.form = FOVEA_MHA_MERGED;
        desc.merge = keys ? FOVEA_MHA_MERGE_KEYS : FOVEA_MHA_MERGE_QUERIES;
        desc.biases = 0;
        w.q_bias = w.k_bias = w.v_bias = w.o_bias = NULL;
        w.merged = given;
        for (int h = 0; h < 16; h++) {
            given[h] = fovea_matrix_in_out(integers, FOVEA_DTYPE_I8, l->desc.q_features, l->desc.k_features);
            given[h].quantization = &x.quantization[0];
        }
        test_check(fovea_mha_create(ctx, &desc, &w, &made) == FOVEA_ERROR_DTYPE && !made &&
                       strstr(fovea_error_detail(), "weights: dtype of merged is FOVEA_DTYPE_I8"),
                   "integers as W_i: %s", fovea_error_detail());
    }
    for (int m = 0; m < 4; m++) {
        free(x.integers[m]);
        free(x.scales[m]);
    }
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_int8", NULL);
    fovea_context *ctx = test_context_untuned();
    test_forms(ctx);
    test_errors(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
