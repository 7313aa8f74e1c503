/* Rows of keys in place, multiplied by few rows of queries: decode over tensors and over pages of the caller's own
 * (source.h). FV_LANES keys in which a span of memory ends are gathered first. */
#include "attention/sources/source.h"

#include <assert.h>
#include <string.h>

static const fv_kernel *serves(const fv_sources *p) {
    if (p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE || fv_type_of(p->desc->k_dtype) == FV_TYPE_COUNT)
        return NULL;
    return fv_multiply_few(FV_KIND_f32, fv_format_in_rows(p->desc->k_dtype), p->target);
}

/* Products with more rows of floats take longer than packing saves. */
static bool suits(const fv_sources *p) {
    return fv_sources_few_rows(p) && (p->desc->k_dtype != FOVEA_DTYPE_F32 || p->choice->block_rows <= FV_FEW_ROWS);
}

static const void *gather(fv_keys *k, int64_t begin, int64_t end) {
    const int64_t size = fv_dtype_size(k->side->dtype), bytes = k->plan->desc->head_dim * size;
    for (int64_t key = begin, count; key < end; key += count) {
        const fv_kv_span span = fv_keys_span(k, key, end);
        count = span.count;
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)k->gathered + (key - begin + i) * bytes, (const char *)span.at + i * span.stride * size,
                   (size_t)bytes);
    }
    return k->gathered;
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    const int64_t dim = k->plan->desc->head_dim;
    fv_kv_span span = fv_keys_span(k, begin, end);
    if (begin + span.count < end)
        span.count = fv_round_down(span.count, FV_LANES);
    if (span.count == 0) {
        span.count = fv_min(FV_LANES, end - begin);
        span.stride = dim;
        span.at = gather(k, begin, begin + span.count);
    }
    *step = (fv_keys_step){.keys = {.data = span.at,
                                    .columns = span.count,
                                    .steps = dim,
                                    .row = span.stride,
                                    .format = fv_format_in_rows(k->side->dtype)},
                           .begin = begin,
                           .end = begin + span.count,
                           .product = k->plan->k[FV_KEYS_rows],
                           .form = FV_QUERIES_floats,
                           .most_rows = FV_FEW_ROWS,
                           .factor = 1.0f};
    return true;
}

const fv_keys_source fv_keys_rows = {.name = "rows",
                                     .id = FV_KEYS_rows,
                                     .layouts = 1u << FV_KV_ROWS,
                                     .form = FV_QUERIES_floats,
                                     .serves = serves,
                                     .suits = suits,
                                     .next = next};
