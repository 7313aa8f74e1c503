/* Rows of values used in place, by the product of few rows of weights (source.h): decode. With floats only a tier whose
 * registers hold the chains of 128 columns gains, and only where hardware prefetches them, as it does if keys are
 * interleaved. */
#include "attention/sources/in_place.h"

static const fv_kernel *serves(const fv_sources *p) {
    if (p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE || fv_type_of(p->desc->v_dtype) == FV_TYPE_COUNT)
        return NULL;
    return fv_multiply_few(FV_KIND_f32, fv_format_as_it_lies(p->desc->v_dtype), p->target);
}

static bool suits(const fv_sources *p, fv_kv_layout layout) {
    return fv_sources_few_rows(p) && (p->desc->v_dtype != FOVEA_DTYPE_F32 ||
                                      (layout == FV_KV_INTERLEAVED && p->v[FV_VALUES_few]->isa != FV_ISA_scalar &&
                                       p->choice->block_rows <= p->stream_rows));
}

static void next(const fv_values *v, int64_t column, int64_t first, int64_t end, fv_values_step *step) {
    (void)column;
    *step = fv_lying_step(v, first, end, v->plan->v[FV_VALUES_few]);
}

const fv_values_source fv_values_few = {
    .name = "few", .id = FV_VALUES_few, .streams = true, .serves = serves, .suits = suits, .next = next};
