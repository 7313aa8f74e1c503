/* int8 values of a cache in place (source.h). */
#include "attention/sources/in_place.h"

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->v_dtype == FOVEA_DTYPE_I8 ? fv_multiply_few(FV_KIND_f32, FV_FORMAT_i8, p->target) : NULL;
}

static void next(const fv_values *v, int64_t column, int64_t first, int64_t end, fv_values_step *step) {
    (void)column;
    *step = fv_lying_step(v, first, end, v->plan->v[FV_VALUES_int8]);
}

const fv_values_source fv_values_int8 = {
    .name = "int8", .id = FV_VALUES_int8, .finite = true, .serves = serves, .next = next};
