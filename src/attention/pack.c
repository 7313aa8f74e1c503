/* Keys of a segment, packed for the gemm of scores (tile.h).
 *
 * Keys and queries of 16 bits may be multiplied as pairs. Those of float16 always are, where there is an instruction; scores
 * are multiplied by 2^e of the scale then, as queries cannot hold the product. Those of bfloat16 are if no sum of their
 * products can be subnormal: the guard, fv_pairs_exact(), asks that of the magnitudes that were met while packing, for a
 * segment at a time, or a panel where a block is one tile. Where it falls, keys are packed as floats. The bits are the same.
 */
#include "attention/tile.h"

#include <math.h>

/* Packs keys [key, end) of a segment, a granule in which a run ends, its last part, or one of 16 bits: all keys at one place
 * first. */
static void pack_granule(const fv_block *x, fv_segment *s, int64_t key, int64_t end, float *to, float *norm) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim;
    for (int64_t at = key, count; at < end; at += count) {
        const fv_kv_run run = fv_run_of(x, &x->kv->k, s, at, end);
        float *row = x->granule + (at - key) * dim;
        count = run.count;
        if (p->kernels.widen_k)
            p->kernels.widen_k(count, dim, run.at, run.stride, row, dim);
        else
            p->kernels.copy(count, dim, run.at, run.stride, row, dim);
    }
    p->kernels.pack(end - key, dim, x->granule, dim, to, p->panel, norm);
}

/* Packs the panel of a segment's keys that begins at key at, as far as any row of the block sees it. Keys that lie in
 * lanes are copied, a group at a time. */
static void pack_panel(const fv_block *x, fv_segment *s, int64_t at, float *panel) {
    const fovea_attention_plan *p = x->plan;
    const int64_t begin = fv_max(at, fv_round_down(s->keys.begin, FV_LANES)), end = fv_min(at + p->panel, s->keys.end);
    const int64_t dim = p->desc.head_dim;
    float *norm = s->norm < INFINITY ? &s->norm : NULL;
    for (int64_t key = begin, count; key < end; key += count) {
        const fv_kv_run run = fv_run_of(x, &x->kv->k, s, key, end);
        float *to = panel + (key - at);
        count = run.count;
        if (x->kv->k.layout == FV_KV_LANES) {
            for (int64_t i = 0; i < count; i += FV_LANES)
                p->kernels.copy(dim, FV_LANES, fv_kv_group(&x->kv->k, &run, i / FV_LANES), FV_LANES, to + i, p->panel);
            s->norm = INFINITY; /* unknown */
            continue;
        }
        if (p->kernels.widen_k)
            count = 0; /* granule by granule: widened, they stay in the first-level cache */
        else if (key + count < end)
            count = fv_round_down(count, FV_LANES);
        if (count > 0)
            p->kernels.pack(count, dim, run.at, run.stride, to, p->panel, norm);
        else {
            count = fv_min(FV_LANES, end - key);
            pack_granule(x, s, key, key + count, to, norm);
        }
    }
}

/* Of 16 bits, which runs of a segment hold whole: as pairs. */
static void pack_panel_pairs(const fv_block *x, fv_segment *s, int64_t at, float *panel) {
    const fovea_attention_plan *p = x->plan;
    const int64_t begin = fv_max(at, fv_round_down(s->keys.begin, FV_LANES)), end = fv_min(at + p->panel, s->keys.end);
    const fv_kv_run run = fv_run_of(x, &x->kv->k, s, begin, end);
    assert(run.count == end - begin);
    p->kernels.pack_pairs(run.count, p->desc.head_dim, run.at, run.stride, panel + (begin - at), p->panel,
                          &s->magnitudes, s->norm < INFINITY ? &s->norm : NULL);
}

/* Is the block one tile? Then what the tile needs is packed when it needs it, all panels to one place. */
static bool one_tile(const fv_block *x) { return x->rows <= x->plan->choice.tile_rows; }

static bool exact(const fv_block *x, const fv_segment *s) { return fv_pairs_exact(x->magnitudes, s->magnitudes); }

void fv_keys_open(fv_block *x, fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const int64_t first = fv_round_down(s->keys.begin, p->panel), words = p->pair_words;
    s->magnitudes = fv_magnitudes_none();
    s->pairs = x->pairs;
    if (one_tile(x))
        return;
    for (int64_t at = first; at < s->keys.end && s->pairs; at += p->panel)
        pack_panel_pairs(x, s, at, x->k + at * words);
    s->pairs = s->pairs && exact(x, s);
    if (!s->pairs)
        fv_queries_take_floats(x);
    for (int64_t at = first; at < s->keys.end && !s->pairs; at += p->panel)
        pack_panel(x, s, at, x->k + at * p->desc.head_dim);
}

fv_panel fv_keys_panel(fv_block *x, fv_segment *s, int64_t at) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim, words = p->pair_words;
    bool pairs = s->pairs;
    if (one_tile(x)) {
        s->magnitudes = fv_magnitudes_none();
        if (pairs)
            pack_panel_pairs(x, s, at, x->k);
        pairs = pairs && exact(x, s);
        if (!pairs) {
            fv_queries_take_floats(x);
            pack_panel(x, s, at, x->k);
        }
    }
    const int64_t place = one_tile(x) ? 0 : at;
    return pairs ? (fv_panel){x->k + place * words, x->pairs_q, words,
                              p->tiles ? p->tiles->run.gemm_blocks_bf16 : p->pairs->run.gemm_pairs_bf16}
                 : (fv_panel){x->k + place * dim, x->q, dim, p->kernels.score};
}
