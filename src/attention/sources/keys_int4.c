/* 4-bit keys of pages, multiplied as integers by rotated queries (int4.h, source.h). A step is a whole panel, even if
 * it begins before what was asked for or ends behind it. */
#include "attention/sources/source.h"

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->k_dtype == FOVEA_DTYPE_I4 ? fv_multiply_integers(FV_FORMAT_i4g, true, false, p->target) : NULL;
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    const fv_sources *p = k->plan;
    const int64_t first = fv_round_down(begin, FV_I4_KEYS), dim = p->desc->head_dim;
    const fv_kv_span span = fv_keys_span(k, first, first + FV_I4_KEYS);
    (void)end;
    p->ops->scales(FV_SCALES_f16, span.scales, FV_I4_KEYS, 0, fv_i4_groups(dim), k->packed);
    *step = (fv_keys_step){.keys = {.data = span.at,
                                    .scales = k->packed,
                                    .columns = FV_I4_KEYS,
                                    .steps = dim,
                                    .row = FV_I4_KEYS,
                                    .group = {.steps = FV_I4_GROUP},
                                    .width = FV_I4_KEYS,
                                    .format = FV_FORMAT_i4g},
                           .begin = first,
                           .end = first + FV_I4_KEYS,
                           .product = p->k[FV_KEYS_int4],
                           .form = FV_QUERIES_groups,
                           .most_rows = FV_FEW_ROWS,
                           .factor = 1.0f};
    return true;
}

const fv_keys_source fv_keys_int4 = {.name = "int4",
                                     .id = FV_KEYS_int4,
                                     .layouts = 1u << FV_KV_INTERLEAVED,
                                     .form = FV_QUERIES_groups,
                                     .streams = true,
                                     .whole = true,
                                     .serves = serves,
                                     .next = next};
