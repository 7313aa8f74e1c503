/* Keys of a segment, packed for the product of scores (tile.h).
 *
 * Keys and queries of 16 bits may be multiplied as pairs. Those of float16 always are, where there is an instruction;
 * scores are multiplied by 2^e of the scale then, as queries cannot hold the product. Those of bfloat16 are if no sum
 * of their products can be subnormal: the guard, fv_pairs_exact(), asks that of the exponents that were met while
 * packing, for a segment at a time, or a panel where a block is one tile. Where it falls, keys are packed as floats.
 * The bits are the same.
 */
#include "attention/flash/tile.h"

#include <math.h>
#include <string.h>

/* Interleaved keys of float16, one element a word, to rows. */
static void halves_in_rows(int64_t channels, const uint16_t *group, uint16_t *rows, int64_t stride) {
    for (int64_t i = 0; i < FV_LANES; i++)
        for (int64_t c = 0; c < channels; c++)
            rows[i * stride + c] = group[c * FV_KEY_GROUP + i];
}

/* Of interleaved keys, how many of [key, end) come next: a group, or half of one. They are packed but for their
 * places. */
static int64_t group_keys(int64_t key, int64_t end, int64_t room) {
    return key % FV_KEY_GROUP == 0 && end - key > FV_LANES && room >= FV_KEY_GROUP ? FV_KEY_GROUP : FV_LANES;
}

/* So many interleaved keys become columns of a panel of floats. */
static void pack_interleaved(const fv_block *x, const void *group, int64_t count, float *to) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim;
    if (p->kernels.unpack_k)
        p->kernels.unpack_k(&(fv_operand){.data = group,
                                          .columns = count,
                                          .steps = dim,
                                          .row = FV_KEY_GROUP,
                                          .format = fv_format_interleaved(x->kv->k.dtype)},
                            to, p->panel);
    else if (p->kernels.widen_k)
        p->kernels.widen_k(dim, count, group, FV_KEY_GROUP, to, p->panel);
    else
        p->kernels.copy(dim, count, group, FV_KEY_GROUP, to, p->panel);
}

/* Adds those of a column of words of two. */
static void meet(fv_exponent_range *exponents, const float *words, int64_t rows, int64_t stride, int64_t columns) {
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

/* Packs keys [key, end) of a segment, at most FV_LANES in which a span ends, or of 16 bits: all keys at one
 * place first. */
static void pack_gathered(const fv_block *x, fv_segment *s, int64_t key, int64_t end, float *to, float *norm) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim;
    for (int64_t at = key, count; at < end; at += count) {
        const fv_kv_span span = fv_span_of(x, &x->kv->k, s, at, end);
        float *row = x->gathered + (at - key) * dim;
        count = span.count;
        if (p->kernels.widen_k)
            p->kernels.widen_k(count, dim, span.at, span.stride, row, dim);
        else
            p->kernels.copy(count, dim, span.at, span.stride, row, dim);
    }
    p->kernels.pack(end - key, dim, x->gathered, dim, 0, to, p->panel, NULL, norm);
}

/* Packs the panel of a segment's keys that begins at key at, as far as any row of the block sees it. */
static void pack_panel(const fv_block *x, fv_segment *s, int64_t at, float *panel) {
    const fovea_attention_plan *p = x->plan;
    const int64_t begin = fv_max(at, fv_round_down(s->keys.begin, FV_LANES)), end = fv_min(at + p->panel, s->keys.end);
    const int64_t dim = p->desc.head_dim;
    float *norm = s->norm < INFINITY ? &s->norm : NULL;
    for (int64_t key = begin, count; key < end; key += count) {
        float *to = panel + (key - at);
        if (x->kv->k.layout == FV_KV_INTERLEAVED) {
            count = group_keys(key, end, at + p->panel - key);
            pack_interleaved(x, fv_span_of(x, &x->kv->k, s, key, end).at, count, to);
            s->norm = INFINITY; /* unknown */
            continue;
        }
        fv_kv_span span = {0}; /* of 16 bits FV_LANES at a time: widened, they stay in the first-level cache */
        if (!p->kernels.widen_k)
            span = fv_span_of(x, &x->kv->k, s, key, end);
        count = span.count;
        if (key + count < end)
            count = fv_round_down(count, FV_LANES);
        if (count > 0)
            p->kernels.pack(count, dim, span.at, span.stride, 0, to, p->panel, NULL, norm);
        else {
            count = fv_min(FV_LANES, end - key);
            pack_gathered(x, s, key, key + count, to, norm);
        }
    }
}

/* Of 16 bits, which spans of a segment hold whole: as pairs. */
static void pack_panel_pairs(const fv_block *x, fv_segment *s, int64_t at, float *panel) {
    const fovea_attention_plan *p = x->plan;
    const int64_t begin = fv_max(at, fv_round_down(s->keys.begin, FV_LANES)), end = fv_min(at + p->panel, s->keys.end);
    const int64_t dim = p->desc.head_dim;
    for (int64_t key = begin, count; key < end; key += count) {
        fv_kv_span span = fv_span_of(x, &x->kv->k, s, key, end);
        if (x->kv->k.layout == FV_KV_INTERLEAVED && x->kv->k.dtype == FOVEA_DTYPE_BF16) {
            count = group_keys(key, end, at + p->panel - key);
            p->kernels.copy(p->pair_words, count, span.at, FV_KEY_GROUP, panel + (key - at), p->panel);
            meet(&s->exponents, span.at, p->pair_words, FV_KEY_GROUP, fv_min(count, end - key));
            s->norm = INFINITY; /* unknown */
            continue;
        }
        if (x->kv->k.layout == FV_KV_INTERLEAVED) {
            const int64_t stride = fv_round_up(dim, FV_LANES);
            halves_in_rows(dim, span.at, (uint16_t *)x->key_rows, stride);
            span = (fv_kv_span){x->key_rows, stride, fv_min(span.count, FV_LANES), NULL};
        }
        count = span.count;
        assert(key + count == end || count % FV_LANES == 0);
        p->kernels.pack_pairs(count, dim, span.at, span.stride, 0, panel + (key - at), p->panel, &s->exponents,
                              s->norm < INFINITY ? &s->norm : NULL);
    }
}

/* Is the block one tile? Then what the tile needs is packed when it needs it, all panels to one place. */
static bool one_tile(const fv_block *x) { return x->rows <= x->plan->choice.tile_rows; }

static bool exact(const fv_block *x, const fv_segment *s) { return fv_pairs_exact(x->exponents, s->exponents); }

void fv_keys_open(fv_block *x, fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const int64_t first = fv_round_down(s->keys.begin, p->panel), words = p->pair_words;
    s->exponents = fv_exponents_none();
    s->pairs = x->pairs;
    if (one_tile(x))
        return;
    for (int64_t at = first; at < s->keys.end && s->pairs; at += p->panel)
        pack_panel_pairs(x, s, at, x->k + at * words);
    s->pairs = s->pairs && exact(x, s);
    if (!s->pairs)
        fv_queries_ensure_floats(x);
    for (int64_t at = first; at < s->keys.end && !s->pairs; at += p->panel)
        pack_panel(x, s, at, x->k + at * p->desc.head_dim);
}

fv_panel fv_keys_panel(fv_block *x, fv_segment *s, int64_t at) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim, words = p->pair_words;
    bool pairs = s->pairs;
    if (one_tile(x)) {
        s->exponents = fv_exponents_none();
        if (pairs)
            pack_panel_pairs(x, s, at, x->k);
        pairs = pairs && exact(x, s);
        if (!pairs) {
            fv_queries_ensure_floats(x);
            pack_panel(x, s, at, x->k);
        }
    }
    const int64_t place = one_tile(x) ? 0 : at;
    fv_operand keys = {.columns = p->panel, .steps = dim, .row = p->panel};
    if (pairs) {
        keys.data = x->k + place * words;
        keys.format = p->kernels.pack_q ? FV_FORMAT_bf16x2 : FV_FORMAT_f16x2x4;
        return (fv_panel){keys, x->pairs_q, words, p->pairs->run.multiply};
    }
    keys.data = x->k + place * dim;
    keys.format = FV_FORMAT_f32;
    return (fv_panel){keys, x->q, dim, p->kernels.score};
}
