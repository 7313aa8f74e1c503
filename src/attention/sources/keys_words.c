/* Keys packed as words of two elements of 16 bits, for units that multiply those faster than floats (source.h).
 *
 * Words of float16 always have the bits of floats, where there is an instruction; scores are multiplied by 2^e of the
 * scale then, as queries cannot hold the product. Those of bfloat16 have them if no sum of products can be subnormal:
 * the guard, fv_pairs_exact(), asks that of the exponents that were met while packing, of a segment, or of a panel
 * where the block is one tile. Where it falls, keys are packed as floats. */
#include "attention/sources/packed.h"

#include "core/core.h"

#include <string.h>

/* The scale, which has to be positive, is added to the exponents of bfloat16. By the one that scores of float16 are
 * multiplied with, nothing may overflow or become subnormal. */
bool fv_packed_words_scale(const fv_sources *p) {
    return p->desc->dtype == FOVEA_DTYPE_BF16 ? p->scale.q >= 0x1p-126f
                                              : p->scale.q >= 0x1p-24f && p->scale.q <= 0x1p24f;
}

static const fv_kernel *serves(const fv_sources *p) {
    const fovea_attention_desc *d = p->desc;
    const fv_type type = fv_type_of(d->dtype);
    if ((type != FV_TYPE_bf16 && type != FV_TYPE_f16) || d->k_dtype != d->dtype ||
        d->arithmetic == FOVEA_ARITHMETIC_BF16_TILE || !p->cpu->fast_pairs || !fv_packed_words_scale(p))
        return NULL;
    const fv_kernel *product = fv_multiply_pairs(type, p->target);
    return product->isa != FV_ISA_scalar ? product : NULL;
}

/* Interleaved keys of float16, one element a word, to rows. */
static void halves_in_rows(int64_t channels, const uint16_t *group, uint16_t *rows, int64_t stride) {
    for (int64_t i = 0; i < FV_LANES; i++)
        for (int64_t c = 0; c < channels; c++)
            rows[i * stride + c] = group[c * FV_KEY_GROUP + i];
}

/* Adds the exponents of columns of words. */
static void add_exponents(fv_exponent_range *exponents, const float *words, int64_t rows, int64_t stride,
                          int64_t columns) {
    int16_t least = INT16_MAX, most = 0; /* of magnitudes less 1, so that 0 is the largest */
    for (int64_t t = 0; t < rows; t++) {
        uint16_t halves[2 * FV_KEY_GROUP];
        memcpy(halves, words + t * stride, (size_t)columns * sizeof *words);
        for (int64_t i = 0; i < 2 * columns; i++) {
            const int16_t size = (int16_t)(halves[i] & 0x7fff), less = (int16_t)((size - 1) & 0x7fff);
            least = less < least ? less : least;
            most = size > most ? size : most;
        }
    }
    fv_exponents_add(exponents, (fv_exponent_range){least == INT16_MAX ? 0xffff : least + 1, most});
}

/* Pages end where segments do, so that a span holds all keys of a panel. */
static void pack_panel(fv_keys *k, int64_t at, float *panel, fv_exponent_range *exponents) {
    const fv_sources *p = k->plan;
    const bool bf16 = k->side->dtype == FOVEA_DTYPE_BF16;
    const fv_range keys = fv_packed_range(k, at);
    const int64_t dim = p->desc->head_dim;
    for (int64_t key = keys.begin, count; key < keys.end; key += count) {
        fv_kv_span span = fv_keys_span(k, key, keys.end);
        if (k->side->layout == FV_KV_INTERLEAVED && bf16) {
            count = fv_packed_group(key, keys.end, at + p->panel - key);
            p->ops->copy(fv_words_of(dim), count, span.at, FV_KEY_GROUP, panel + (key - at), p->panel);
            add_exponents(exponents, span.at, fv_words_of(dim), FV_KEY_GROUP, fv_min(count, keys.end - key));
            k->norm = INFINITY; /* unknown */
            continue;
        }
        if (k->side->layout == FV_KV_INTERLEAVED) {
            const int64_t stride = fv_round_up(dim, FV_LANES);
            halves_in_rows(dim, span.at, k->gathered, stride);
            span = (fv_kv_span){k->gathered, stride, fv_min(span.count, FV_LANES), NULL};
        }
        count = span.count;
        (bf16 ? p->ops->pack_columns_bf16x2 : p->ops->pack_columns_f16x2x4)(
            count, dim, span.at, span.stride, 0, panel + (key - at), p->panel, exponents, fv_packed_norm(k));
    }
}

static bool exact(const fv_keys *k, fv_exponent_range exponents) {
    return fv_pairs_exact(k->queries->exponents, exponents);
}

bool fv_packed_words_begin(fv_keys *k) {
    if (!fv_float_nearest() || fv_kv_short_pages(k->side))
        return false;
    fv_queries_in(k->queries, FV_QUERIES_words);
    k->queries->exponents = fv_exponents_scaled(k->queries->exponents, ilogbf(k->plan->scale.q));
    if (exact(k, fv_exponents_none()))
        return true;
    fv_queries_drop_words(k->queries);
    return false;
}

bool fv_packed_words_open(fv_keys *k) {
    const int64_t panel = k->plan->panel, words = fv_words_of(k->plan->desc->head_dim);
    fv_exponent_range exponents = fv_exponents_none();
    if (k->one_tile)
        return true;
    for (int64_t at = fv_round_down(k->range.begin, panel); at < k->range.end; at += panel)
        pack_panel(k, at, k->packed + at * words, &exponents);
    return exact(k, exponents);
}

bool fv_packed_words_next(fv_keys *k, int64_t begin, int64_t end, const fv_kernel *product, fv_keys_step *step) {
    const bool bf16 = k->side->dtype == FOVEA_DTYPE_BF16;
    fv_exponent_range exponents = fv_exponents_none();
    if (k->one_tile)
        pack_panel(k, fv_round_down(begin, k->plan->panel), k->packed, &exponents);
    if (!exact(k, exponents))
        return false;
    fv_packed_step(k, begin, end, fv_words_of(k->plan->desc->head_dim), bf16 ? FV_FORMAT_bf16x2 : FV_FORMAT_f16x2x4,
                   FV_QUERIES_words, product, step);
    step->factor = bf16 ? 1.0f : k->plan->scale.q;
    return true;
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    return fv_packed_words_next(k, begin, end, k->plan->k[FV_KEYS_words], step);
}

const fv_keys_source fv_keys_words = {.name = "words",
                                      .id = FV_KEYS_words,
                                      .layouts = 1u << FV_KV_ROWS | 1u << FV_KV_INTERLEAVED,
                                      .form = FV_QUERIES_words,
                                      .knows_norms = true,
                                      .serves = serves,
                                      .begin = fv_packed_words_begin,
                                      .open = fv_packed_words_open,
                                      .next = next};
