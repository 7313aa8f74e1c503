/* Values copied as words of two bfloat16, keys 2i and 2i + 1, for weights that are bfloat16, too (source.h). The guard:
 * every product with a weight is exact, weights being 0 or from 2^-40 to 1. A segment whose first key is an odd one is
 * left to floats. */
#include "attention/sources/copied.h"

#include "core/core.h"

static const fv_kernel *serves(const fv_sources *p) {
    const fv_kernel *product =
        p->desc->v_dtype == FOVEA_DTYPE_BF16 && p->desc->arithmetic == FOVEA_ARITHMETIC_BF16 && p->cpu->fast_pairs
            ? fv_multiply_pairs(FV_TYPE_bf16, p->target)
            : NULL;
    return product && product->isa != FV_ISA_scalar ? product : NULL;
}

bool fv_copied_words_begin(fv_values *v, fv_range keys) {
    (void)keys;
    return fv_float_nearest() && !fv_kv_short_pages(v->side);
}

bool fv_copied_words_open(fv_values *v) {
    const fv_sources *p = v->plan;
    const fv_exponent_range weights = {(127 - 40) << 7, 127 << 7};
    const int64_t panel = p->choice->value->nr, begin = v->range.begin, dim = p->desc->value_dim;
    fv_exponent_range values = fv_exponents_none();
    if (begin % 2 != 0 || begin == v->range.end)
        return false;
    const fv_kv_span span = fv_values_span(v, begin, v->range.end);
    for (int64_t at = 0; at < dim; at += panel)
        p->ops->pack_steps_bf16x2(span.count, fv_min(panel, dim - at), fv_kv_channel(v->side, &span, at), span.stride,
                                  0, v->copied + (at * FV_SEGMENT + begin * panel) / 2, panel, &values, NULL);
    return fv_pairs_exact(weights, values);
}

static void next(const fv_values *v, int64_t column, int64_t begin, int64_t end, fv_values_step *step) {
    *step = fv_copied_step(v, column, begin, end, 2, FV_FORMAT_bf16x2, v->plan->v[FV_VALUES_words]);
}

const fv_values_source fv_values_words = {.name = "words",
                                          .id = FV_VALUES_words,
                                          .words = true,
                                          .finite = true,
                                          .serves = serves,
                                          .begin = fv_copied_words_begin,
                                          .open = fv_copied_words_open,
                                          .next = next};
