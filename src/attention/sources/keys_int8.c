/* int8 keys of a cache, multiplied as integers by queries of 15 bits (int8.h, source.h). */
#include "attention/sources/source.h"

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->k_dtype == FOVEA_DTYPE_I8 ? fv_multiply_few(FV_KIND_i16, FV_FORMAT_i8x4, p->target) : NULL;
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    const fv_kv_span span = fv_keys_span(k, begin, end);
    *step = (fv_keys_step){.keys = {.data = span.at,
                                    .scales = span.scales,
                                    .columns = span.count,
                                    .steps = k->plan->desc->head_dim,
                                    .row = FV_KEY_GROUP,
                                    .panel = span.stride / fv_interleaved_word(FOVEA_DTYPE_I8),
                                    .width = FV_KEY_GROUP,
                                    .first = (int16_t)(begin % FV_KEY_GROUP),
                                    .format = FV_FORMAT_i8x4},
                           .begin = begin,
                           .end = begin + span.count,
                           .product = k->plan->k[FV_KEYS_int8],
                           .form = FV_QUERIES_integers,
                           .most_rows = FV_FEW_ROWS,
                           .factor = 1.0f};
    return true;
}

const fv_keys_source fv_keys_int8 = {.name = "int8",
                                     .id = FV_KEYS_int8,
                                     .layouts = 1u << FV_KV_INTERLEAVED,
                                     .form = FV_QUERIES_integers,
                                     .streams = true,
                                     .serves = serves,
                                     .next = next};
