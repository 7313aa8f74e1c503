/* Values copied as floats into panels as wide as the product's tile (source.h): those of 16 bits, and floats that lie
 * badly. */
#include "attention/sources/copied.h"

static const fv_kernel *serves(const fv_sources *p) {
    if (fv_type_of(p->desc->v_dtype) == FV_TYPE_COUNT)
        return NULL;
    return p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE
               ? fv_multiply_best(FV_KIND_f32_amx_order, FV_FORMAT_f32, p->target)
               : p->choice->value;
}

static bool open(fv_values *v) {
    const fv_sources *p = v->plan;
    const int64_t panel = p->choice->value->nr, dim = p->desc->value_dim;
    fv_widen_bf16_fn *widen = fv_ops_widen(p->ops, v->side->dtype);
    for (int64_t key = v->range.begin, count; key < v->range.end && !v->copied_floats; key += count) {
        const fv_kv_span span = fv_values_span(v, key, v->range.end);
        count = span.count;
        for (int64_t at = 0; at < dim; at += panel) {
            const int64_t channels = fv_min(panel, dim - at);
            const void *from = fv_kv_channel(v->side, &span, at);
            float *to = v->copied + at * FV_SEGMENT + key * panel;
            if (widen)
                widen(count, channels, from, span.stride, to, panel);
            else
                p->ops->copy(count, channels, from, span.stride, to, panel);
        }
    }
    v->copied_floats = true;
    return true;
}

static void next(const fv_values *v, int64_t column, int64_t begin, int64_t end, fv_values_step *step) {
    *step = fv_copied_step(v, column, begin, end, 1, FV_FORMAT_f32, v->plan->v[FV_VALUES_floats]);
}

const fv_values_source fv_values_floats = {
    .name = "floats", .id = FV_VALUES_floats, .skips = true, .serves = serves, .open = open, .next = next};
