/* Finds the keys of a segment that rows see (tile.h): ranges from lengths, causality and window; a mask narrows them
 * and, where ranges cannot express it, adds bits.
 *
 * Where the rows of a tile see different keys (the edge of causality or of a window), scores and values go by groups of
 * edge_rows rows, each over the keys that its rows see, so that at most a register tile is computed that no row sees.
 * A row's bits mark the columns of its tile that it does not see; those get p = -0. A tile whose mask leaves the
 * ranges as they are goes as one without a mask.
 */
#include "attention/flash/score.h"
#include "attention/flash/tile_groups.h"

/* Where a row of the block is in the mask. */
static fv_mask_rows mask_rows(const fv_block *x, int64_t row) {
    return fv_mask_row(&x->mask, &x->sequence, fv_place_of(x, row));
}

static bool empty(fv_range range) { return range.begin == range.end; }

/* Narrows a range of a row's keys by the mask, as far as a range can express it. */
static fv_range narrow_row(const fv_block *x, const fv_mask_rows *row, fv_range keys) {
    const int64_t start = x->sequence.kv_start;
    const fv_range bounds = fv_mask_bounds(&x->mask, row, (fv_range){keys.begin + start, keys.end + start});
    return empty(bounds) ? bounds : (fv_range){bounds.begin - start, bounds.end - start};
}

void fv_block_narrow(fv_block *x) {
    const fv_range keys = {0, x->sequence.kv_len};
    fv_range all = {0, 0}, one = keys;
    bool uniform = true, ascending = fv_block_one_head(x), ended = false;
    for (int64_t i = 0; i < x->rows; i++) {
        fv_range *range = &x->to->ranges[i];
        const fv_mask_rows at = mask_rows(x, i);
        if (x->mask.one_row && !empty(keys) && (i == 0 || at.row == x->sequence.tokens.begin)) /* a head begins */
            one = narrow_row(x, &at, keys);
        if (!empty(*range))
            *range = x->mask.one_row ? fv_range_common(*range, one) : narrow_row(x, &at, *range);
        if (i > 0) {
            const fv_range before = x->to->ranges[i - 1];
            uniform = uniform && range->begin == before.begin && range->end == before.end;
            ended = ended || (!empty(before) && empty(*range));
            ascending = ascending &&
                        (empty(*range) || empty(before) || (before.begin <= range->begin && before.end <= range->end));
            ascending = ascending && !(ended && !empty(*range));
        }
        all = fv_range_union(all, *range);
    }
    x->seen.range = all;
    x->seen.uniform = uniform;
    x->seen.ascending = ascending;
}

/* Takes what a mask does not let a row see from the bits of its keys of a segment. */
static void and_bits(const fv_block *x, int64_t row, int64_t segment, fv_range keys, fv_keybits *bits) {
    const fv_mask_rows at = mask_rows(x, row);
    fv_mask_and_bits(&x->mask, &at, fv_first_column(x, segment), keys, bits);
}

/* Classifies rows of a segment by ranges alone. */
static fv_visibility classify(const fv_block *x, int64_t row, int64_t rows, int64_t segment) {
    fv_visibility all = FV_VISIBLE_SOME;
    for (int64_t i = row, run; i < row + rows; i += run) {
        run = fv_run_of_head(x, i, row + rows - i);
        const fv_mask_rows at = mask_rows(x, i);
        const fv_visibility visible = fv_mask_classify(&x->mask, &at, run, fv_first_column(x, segment));
        if (visible == FV_VISIBLE_SOME || (i > row && visible != all))
            return FV_VISIBLE_SOME;
        all = visible;
    }
    return all;
}

bool fv_block_sees(const fv_block *x, int64_t segment) {
    if (!x->mask.kind)
        return true;
    const fv_visibility visible = classify(x, 0, x->rows, segment);
    for (int64_t i = 0; i < x->rows && visible != FV_VISIBLE_NONE; i++) {
        const fv_range keys = fv_range_in_segment(x->to->ranges[i], segment);
        if (empty(keys))
            continue;
        fv_keybits bits = fv_range_bits(keys);
        if (visible == FV_VISIBLE_SOME)
            and_bits(x, i, segment, keys, &bits);
        if (!empty(fv_bits_range(&bits)))
            return true;
    }
    return false;
}

int64_t fv_block_next_listed(const fv_block *x, int64_t segment, int64_t end) {
    const int64_t first = segment * FV_SEGMENT, start = x->sequence.kv_start;
    if (!x->mask.kind)
        return segment;
    int64_t next = end * FV_SEGMENT;
    for (int64_t i = 0; i < x->rows && next > first; i++) {
        const int64_t key = fv_max(first, x->to->ranges[i].begin);
        if (key >= fv_min(x->to->ranges[i].end, next))
            continue;
        const fv_mask_rows at = mask_rows(x, i);
        /* A range may end in a gap: what is listed must not depend on where a thread begins to look. */
        const int64_t column = fv_mask_next(&x->mask, &at, key + start) - start;
        if (column < x->to->ranges[i].end)
            next = fv_min(next, column);
    }
    return next / FV_SEGMENT;
}

int64_t fv_block_next_visible(const fv_block *x, int64_t segment, int64_t end) {
    while (segment < end && !fv_block_sees(x, segment))
        segment = fv_block_next_listed(x, segment + 1, end);
    return segment;
}

/* Applies the mask to the ranges of a tile's rows. Unless it leaves all, writes their bits and sets *keys to the range
 * that any of them sees. */
static fv_visibility classify_rows(const fv_block *x, int64_t row, int64_t rows, int64_t segment, fv_range *keys) {
    enum { AHEAD = 8 }; /* rows whose masks are on their way */
    const fv_visibility known = classify(x, row, rows, segment);
    if (known != FV_VISIBLE_SOME)
        return known;
    const bool repeats = x->mask.one_row && fv_block_one_head(x);
    fv_keybits all = {{0}}, any = {{0}};
    fv_range before = {0, 0};
    uint64_t different = 0;
    for (int64_t i = 0; i < rows; i++) {
        const fv_range here = fv_range_in_segment(x->to->ranges[row + i], segment);
        const bool same = here.begin == before.begin && here.end == before.end;
        if (!same)
            all = fv_range_bits(before = here);
        if (i + AHEAD < rows && !repeats) {
            const fv_mask_rows ahead = mask_rows(x, row + i + AHEAD);
            fv_mask_prefetch(&x->mask, &ahead, fv_first_column(x, segment));
        }
        x->to->bits[i] = all;
        if (i > 0 && same && repeats)
            x->to->bits[i] = x->to->bits[i - 1];
        else if (!empty(here))
            and_bits(x, row + i, segment, here, &x->to->bits[i]);
        for (int w = 0; w < FV_SEGMENT / 64; w++) {
            any.word[w] |= x->to->bits[i].word[w];
            different |= all.word[w] ^ x->to->bits[i].word[w];
        }
    }
    const fv_range visible = fv_bits_range(&any);
    if (different)
        *keys = visible;
    return empty(visible) ? FV_VISIBLE_NONE : different ? FV_VISIBLE_SOME : FV_VISIBLE_ALL;
}

/* --------------------------------------------------------------------------------------------------------- tiles -- */

static fv_range widen(fv_range keys) {
    return (fv_range){fv_round_down(keys.begin, FV_LANES), fv_round_up(keys.end, FV_LANES)};
}

fv_tile fv_tile_open(const fv_block *x, const fv_tile_rows *place, int64_t segment) {
    assert(place->first + place->count <= x->rows && place->count <= x->plan->choice.tile_rows);
    const int64_t row = place->first, rows = place->count;
    fv_tile t = {.row = row, .rows = rows, .bits = x->to->bits};
    t.keys = fv_rows_range(x, row, rows, segment, &t.alike);
    const fv_visibility visible =
        x->mask.kind && !empty(t.keys) ? classify_rows(x, row, rows, segment, &t.keys) : FV_VISIBLE_ALL;
    if (visible == FV_VISIBLE_NONE)
        t.keys = (fv_range){0, 0};
    t.group_rows = t.alike ? rows : x->plan->edge_rows;
    t.selected = visible == FV_VISIBLE_SOME;
    t.masked = !empty(t.keys) && (t.selected || fv_score_masks(&x->plan->desc));
    t.mixed = !empty(t.keys) && (!t.alike || t.masked);
    if (t.mixed) {
        t.bits_step = 1;
        for (int64_t i = 0; i < rows && !t.selected; i++)
            x->to->bits[i] =
                t.alike && i > 0 ? x->to->bits[0] : fv_range_bits(fv_range_in_segment(x->to->ranges[row + i], segment));
        t.columns = widen(t.keys);
    } else {
        t.columns = widen(t.keys);
        fv_tile_bits_alike(x, &t);
    }
    t.row_max_end = fv_score_row_max_end(x, &t, segment);
    fv_tile_list_groups(x, &t, segment);
    return t;
}
