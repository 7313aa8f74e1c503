/* Layers of integers with scales, weights in groups and blocks: with EXACT the bits of layers of the floats that they
 * stand for, in every form that takes them; with Q16 the same on every tier, and those of maps of their own where q, k
 * and v are quantized in several ways; and what is refused. */
#include "attention_case.h"
#include "mha_layer.h"
#include "quantization/quantization.h"
#include "quantized_case.h"

#include <stdlib.h>
#include <string.h>

enum { SQUARE = 8 }; /* of layer_sizes_tested, the last: sizes are multiples of 32, which kinds but int8 need */

static fovea_matrix *matrix_of(fovea_mha_weights *w, int i) {
    fovea_matrix *const all[] = {&w->q, &w->k, &w->v, &w->o};
    return all[i];
}

/* The layer's floats become what random quantized weights stand for. */
static void quantize(layer *l, const quantized_kind *kind, quantized_weight w[4], fovea_mha_weights *given, rng *r) {
    *given = l->w;
    for (int i = 0; i < 4; i++) {
        fovea_matrix *plain = matrix_of(&l->w, i);
        quantized_make(&w[i], kind, plain->in, plain->out, r);
        fv_quantized_numbers(&w[i].matrix, 0, plain->out, l->m[i]);
        *plain = fovea_matrix_out_in(l->m[i], FOVEA_DTYPE_F32, plain->out, plain->in);
        *matrix_of(given, i) = w[i].matrix;
    }
}

static void test_kind(const fovea_context *ctx, const fovea_context *scalar, const quantized_kind *kind, int size,
                      rng *r) {
    layer *l = layer_make(&layer_sizes_tested[size], r);
    quantized_weight w[4];
    fovea_mha_weights given;
    quantize(l, kind, w, &given, r);
    l->desc.quantized_arithmetic = FOVEA_ARITHMETIC_EXACT;
    for (int form = 0; form < (l->desc.biases ? 1 : l->heads == l->kv_heads ? 4 : 3); form++) {
        fovea_mha_desc desc = l->desc;
        desc.form = form % 2 ? FOVEA_MHA_MERGED : FOVEA_MHA_FACTORED;
        desc.merge = form == 3 ? FOVEA_MHA_MERGE_KEYS : FOVEA_MHA_MERGE_QUERIES;
        desc.fold_values = form == 2 ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
        float *want = layer_run(ctx, l, &desc, &l->w, kind->name), *got = layer_run(ctx, l, &desc, &given, kind->name);
        if (want && got)
            test_same(got, want, layer_floats(l), "%s, sizes %d, form %d", kind->name, size, form);
        free(want);
        free(got);
    }
    l->desc.quantized_arithmetic = FOVEA_ARITHMETIC_DEFAULT;
    float *want = layer_run(scalar, l, &l->desc, &given, kind->name),
          *got = layer_run(ctx, l, &l->desc, &given, kind->name);
    if (want && got)
        test_same(got, want, layer_floats(l), "%s, q16 on scalar", kind->name);
    free(want);
    free(got);
    fovea_mha *made = NULL;
    if (kind->group || !kind->scale_dtype) {
        given.q_head_stride = 7 * l->features[0];
        test_check(fovea_mha_create(ctx, &l->desc, &given, &made) == FOVEA_ERROR_UNSUPPORTED && !made &&
                       strstr(fovea_error_detail(), "weights: q is quantized in groups or blocks"),
                   "%s: %s", kind->name, fovea_error_detail());
    }
    for (int i = 0; i < 4; i++)
        quantized_free(&w[i]);
    layer_free(l);
}

static const layer_sizes mixed_sizes = {
    1, 8, 8, 2, 2, 32, 32, {64, 64, 64}, 64, FOVEA_MHA_SEPARATE, FOVEA_CAUSAL_NONE, false, false};

/* A layer of one input whose q, k, v and o are of several kinds; NULL: floats. */
static void test_mixed(const fovea_context *ctx, const char *const names[4], rng *r) {
    layer *l = layer_make(&mixed_sizes, r);
    const char *what = "mixed kinds";
    quantized_weight w[4] = {{.data = NULL}};
    fovea_mha_weights given = l->w;
    for (int i = 0; i < 4; i++) {
        fovea_matrix *plain = matrix_of(&l->w, i);
        for (int k = 0; k < quantized_kind_count && names[i]; k++)
            if (strcmp(quantized_kinds[k].name, names[i]) == 0)
                quantized_make(&w[i], &quantized_kinds[k], plain->in, plain->out, r);
        if (!w[i].data)
            continue;
        fv_quantized_numbers(&w[i].matrix, 0, plain->out, l->m[i]);
        *plain = fovea_matrix_out_in(l->m[i], FOVEA_DTYPE_F32, plain->out, plain->in);
        *matrix_of(&given, i) = w[i].matrix;
    }
    for (int i = 1; i < 3; i++)
        memcpy(l->x[i], l->x[0], (size_t)(l->attention.batch * l->attention.q_len * l->features[0]) * sizeof(float));
    for (int exact = 0; exact < 2; exact++) {
        l->desc.quantized_arithmetic = exact ? FOVEA_ARITHMETIC_EXACT : FOVEA_ARITHMETIC_Q16;
        l->desc.inputs = FOVEA_MHA_SEPARATE;
        float *want = layer_run(ctx, l, &l->desc, exact ? &l->w : &given, what);
        l->desc.inputs = FOVEA_MHA_SELF;
        float *got = layer_run(ctx, l, &l->desc, &given, what);
        if (got && want)
            test_same(got, want, layer_floats(l), "%s: q of %s, exact %d", what, names[0] ? names[0] : "floats", exact);
        free(got);
        free(want);
    }
    l->desc.quantized_arithmetic = FOVEA_ARITHMETIC_DEFAULT;
    fovea_mha *made = NULL;
    test_check(fovea_mha_create(ctx, &l->desc, &given, &made) == FOVEA_OK, "%s", fovea_error_detail());
    for (int i = 0; made && i < 4; i++) {
        const fovea_linear *map = NULL;
        int64_t part, in, out;
        fovea_dtype dtype = FOVEA_DTYPE_F32;
        test_check(fovea_mha_linear(made, i, &map, &part, &in, &out) == FOVEA_OK && map &&
                       fovea_linear_unpack(map, part, NULL, NULL, &dtype) == FOVEA_OK &&
                       dtype == matrix_of(&given, i)->dtype && out == matrix_of(&given, i)->out,
                   "%s: weight %d", what, i);
    }
    fovea_mha_destroy(made);
    for (int i = 0; i < 4; i++)
        quantized_free(&w[i]);
    layer_free(l);
}

static void test_errors(const fovea_context *ctx, rng *r) {
    static const int8_t integers[1 << 16];
    layer *l = layer_make(&layer_sizes_tested[0], r);
    quantized_weight w[4];
    fovea_mha_weights given;
    fovea_matrix merged[16];
    fovea_mha *made = NULL;
    quantize(l, &quantized_kinds[0], w, &given, r);
    given.q.quantization = NULL;
    check_status("no scales", fovea_mha_create(ctx, &l->desc, &given, &made), FOVEA_ERROR_NULL,
                 "weights: q is FOVEA_DTYPE_I8, but has no quantization");
    l->w.v.quantization = &w[2].quantization;
    check_status("scales of floats", fovea_mha_create(ctx, &l->desc, &l->w, &made), FOVEA_ERROR_DTYPE, "");
    /* W_i are multiplied with, whichever side they become: they are floats, in one type or several. */
    for (int h = 0; h < 16; h++) {
        merged[h] = fovea_matrix_in_out(integers, FOVEA_DTYPE_I8, l->desc.q_features, l->desc.k_features);
        merged[h].quantization = &w[0].quantization;
    }
    given.merged = merged;
    for (int keys = 0; keys < 2; keys++) {
        fovea_mha_desc desc = l->desc;
        desc.form = FOVEA_MHA_MERGED;
        desc.merge = keys ? FOVEA_MHA_MERGE_KEYS : FOVEA_MHA_MERGE_QUERIES;
        check_status("integers as W_i", fovea_mha_create(ctx, &desc, &given, &made), FOVEA_ERROR_DTYPE,
                     "weights: dtype of merged is FOVEA_DTYPE_I8");
    }
    for (int i = 0; i < 4; i++)
        quantized_free(&w[i]);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_quantized", NULL);
    fovea_context *ctx = test_context_untuned(), *scalar;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = FOVEA_ISA_SCALAR;
    test_check(fovea_context_create(&options, &scalar) == FOVEA_OK, "%s", fovea_error_detail());
    for (int k = 0; k < quantized_kind_count; k++) {
        rng r = rng_stream(test_seed(), quantized_kinds[k].name);
        for (int size = quantized_kinds[k].unit == 1 ? 0 : SQUARE; size < LAYER_SIZES; size++)
            if (quantized_kinds[k].unit <= 32)
                test_kind(ctx, scalar, &quantized_kinds[k], size, &r);
    }
    rng errors = rng_stream(test_seed(), "errors");
    test_errors(ctx, &errors);
    static const char *const mixes[][4] = {{"int8", "int8 in groups", "q4_0", "q8_0"},
                                           {"4 bits", "int8", "4 bits", NULL},
                                           {NULL, "4 bits", "gptq, act-order", "int8"},
                                           {"q8_0", NULL, "q8_0", "4 bits in groups of 16"},
                                           {"gptq, act-order", "gptq, act-order", "4 bits", "q4_1"}};
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++) {
        rng r = rng_stream(test_seed(), "mixed kinds");
        test_mixed(ctx, mixes[i], &r);
    }
    fovea_context_destroy(ctx);
    fovea_context_destroy(scalar);
    return test_end();
}
