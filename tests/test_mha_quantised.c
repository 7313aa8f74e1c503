/* Layers of weights in groups and blocks: with EXACT the bits of layers of the floats that they stand for, in every form that takes
 * them; with Q16 those of its maps called one by one; and what is refused. */
#include "attention_case.h"
#include "mha_layer.h"
#include "quantisation/quantisation.h"
#include "quantised_case.h"

#include <stdlib.h>
#include <string.h>

enum { SQUARE = 8 }; /* of layer_sizes_tested: sizes are multiples of 32 */

static fovea_matrix *matrix_of(fovea_mha_weights *w, int i) {
    fovea_matrix *const all[] = {&w->q, &w->k, &w->v, &w->o};
    return all[i];
}

/* The layer's floats become what random quantised weights stand for. */
static void quantise(layer *l, const quantised_kind *kind, quantised_weight w[4], fovea_mha_weights *given, rng *r) {
    *given = l->w;
    for (int i = 0; i < 4; i++) {
        fovea_matrix *plain = matrix_of(&l->w, i);
        quantised_make(&w[i], kind, plain->in, plain->out, r);
        fv_quantised_numbers(&w[i].matrix, 0, plain->out, l->m[i]);
        *plain = fovea_matrix_out_in(l->m[i], FOVEA_DTYPE_F32, plain->out, plain->in);
        *matrix_of(given, i) = w[i].matrix;
    }
}

static void test_kind(const fovea_context *ctx, const fovea_context *scalar, const quantised_kind *kind, rng *r) {
    layer *l = layer_make(&layer_sizes_tested[SQUARE], r);
    quantised_weight w[4];
    fovea_mha_weights given;
    quantise(l, kind, w, &given, r);
    l->desc.quantised_arithmetic = FOVEA_ARITHMETIC_EXACT;
    for (int form = 0; form < 3; form++) {
        fovea_mha_desc desc = l->desc;
        desc.form = form == 1 ? FOVEA_MHA_MERGED : FOVEA_MHA_FACTORED;
        desc.fold_values = form == 2 ? FOVEA_MHA_FOLD_ALWAYS : FOVEA_MHA_FOLD_NEVER;
        float *want = layer_run(ctx, l, &desc, &l->w, kind->name), *got = layer_run(ctx, l, &desc, &given, kind->name);
        if (want && got)
            test_same(got, want, layer_floats(l), "%s, form %d", kind->name, form);
        free(want);
        free(got);
    }
    l->desc.quantised_arithmetic = FOVEA_ARITHMETIC_DEFAULT;
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
                       strstr(fovea_error_detail(), "weights: q is quantised in groups or blocks"),
                   "%s: %s", kind->name, fovea_error_detail());
    }
    for (int i = 0; i < 4; i++)
        quantised_free(&w[i]);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_quantised", NULL);
    fovea_context *ctx = test_context_untuned(), *scalar;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = FOVEA_ISA_SCALAR;
    test_check(fovea_context_create(&options, &scalar) == FOVEA_OK, "%s", fovea_error_detail());
    for (int k = 0; k < quantised_kind_count; k++) {
        rng r = rng_stream(test_seed(), quantised_kinds[k].name);
        if (quantised_kinds[k].unit <= 32)
            test_kind(ctx, scalar, &quantised_kinds[k], &r);
    }
    fovea_context_destroy(ctx);
    fovea_context_destroy(scalar);
    return test_end();
}
