/* Rows of floats in place (source.h). A block of many rows leaves them to the copy where a row begins inside a cache
 * line, as each load of a vector meets two lines then, and where rows are so far apart that they compete for few sets
 * of the first-level cache. Figures: docs/lab/attention.md. */
#include "attention/sources/in_place.h"

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->v_dtype == FOVEA_DTYPE_F32 && p->desc->arithmetic != FOVEA_ARITHMETIC_BF16_TILE ? p->choice->value
                                                                                                    : NULL;
}

static bool begin(fv_values *v, fv_range keys) {
    if (v->rows < v->plan->choice->copy_rows || keys.begin == keys.end)
        return true;
    const fv_kv_span span = fv_kv_span_of(v->side, v->sequence, v->head, keys.begin, keys.end);
    const uintptr_t first = (uintptr_t)span.at, step = (uintptr_t)span.stride * sizeof(float);
    return (first | step) % FV_ALIGNMENT == 0 && step < 2048 && !fv_kv_short_pages(v->side);
}

static void next(const fv_values *v, int64_t column, int64_t first, int64_t end, fv_values_step *step) {
    (void)column;
    *step = fv_lying_step(v, first, end, v->plan->v[FV_VALUES_rows]);
}

const fv_values_source fv_values_rows = {
    .name = "rows", .id = FV_VALUES_rows, .skips = true, .serves = serves, .begin = begin, .next = next};
