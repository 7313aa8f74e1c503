/* Groups of FV_KEY_GROUP keys in place, as a cache keeps them: decode over a cache's pages (source.h). A group is a
 * panel of the product, columns up to a multiple of FV_LANES are those of what is there. Floats take a group a call,
 * types of 16 bits all groups of a page. */
#include "attention/sources/source.h"

static const fv_kernel *serves(const fv_sources *p) {
    const fv_format format = fv_format_interleaved(p->desc->k_dtype);
    if (p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE || fv_type_of(p->desc->k_dtype) == FV_TYPE_COUNT)
        return NULL;
    if (p->desc->k_dtype == FOVEA_DTYPE_F32)
        return p->choice->score;
    const fv_kernel *few = fv_multiply_few(FV_KIND_f32, format, p->target);
    if (p->cpu->fast_pairs && few && fv_multiply_keys(few) && few->isa != FV_ISA_scalar)
        return few;
    return fv_multiply_best(FV_KIND_f32, format, p->target);
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    const fovea_dtype dtype = k->side->dtype;
    if (dtype == FOVEA_DTYPE_F32)
        end = fv_min(end, fv_round_down(begin, FV_KEY_GROUP) + FV_KEY_GROUP);
    const fv_kv_span span = fv_keys_span(k, begin, end);
    const fv_kernel *product = k->plan->k[FV_KEYS_interleaved];
    const int64_t columns = product->few ? span.count : fv_round_up(span.count, FV_LANES);
    *step = (fv_keys_step){.keys = {.data = span.at,
                                    .columns = columns,
                                    .steps = k->plan->desc->head_dim,
                                    .row = FV_KEY_GROUP,
                                    .panel = span.stride / fv_interleaved_word(dtype),
                                    .width = FV_KEY_GROUP,
                                    .first = (int16_t)(begin % FV_KEY_GROUP),
                                    .format = fv_format_interleaved(dtype)},
                           .begin = begin,
                           .end = begin + columns,
                           .product = product,
                           .form = FV_QUERIES_floats,
                           .most_rows = product->few ? FV_FEW_ROWS : INT64_MAX,
                           .factor = 1.0f,
                           .skips_lines = !product->few && product->nr < FV_KEY_GROUP};
    return true;
}

const fv_keys_source fv_keys_interleaved = {.name = "interleaved",
                                            .id = FV_KEYS_interleaved,
                                            .layouts = 1u << FV_KV_INTERLEAVED,
                                            .form = FV_QUERIES_floats,
                                            .streams = true,
                                            .serves = serves,
                                            .suits = fv_sources_few_rows,
                                            .next = next};
