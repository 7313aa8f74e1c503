/* Keys packed as words of two bfloat16 for units that multiply tiles (source.h). The arithmetic is bf16_tile's, which
 * floats have, too; fewer rows leave most of a tile empty. */
#include "attention/sources/packed.h"

const fv_kernel *fv_sources_tiles(const fv_sources *p) {
    if (p->desc->arithmetic != FOVEA_ARITHMETIC_BF16_TILE)
        return NULL;
    const fv_kernel *product = fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, p->target);
    return product->isa != FV_ISA_scalar || p->cpu->emulates_tiles ? product : NULL;
}

static const fv_kernel *serves(const fv_sources *p) {
    const fovea_attention_desc *d = p->desc;
    if (d->dtype != FOVEA_DTYPE_BF16 || d->k_dtype != d->dtype || !fv_packed_words_scale(p))
        return NULL;
    return fv_sources_tiles(p);
}

static bool begin(fv_keys *k) { return k->queries->rows >= k->plan->choice->amx_rows && fv_packed_words_begin(k); }

static bool next(fv_keys *k, int64_t first, int64_t end, fv_keys_step *step) {
    return fv_packed_words_next(k, first, end, k->plan->k[FV_KEYS_tiles], step);
}

const fv_keys_source fv_keys_tiles = {.name = "tiles",
                                      .id = FV_KEYS_tiles,
                                      .layouts = 1u << FV_KV_ROWS | 1u << FV_KV_INTERLEAVED,
                                      .form = FV_QUERIES_words,
                                      .knows_norms = true,
                                      .serves = serves,
                                      .begin = begin,
                                      .open = fv_packed_words_open,
                                      .next = next};
