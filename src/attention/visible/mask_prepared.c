/* Answers of prepared masks (mask_prepared.h). */
#include "attention/visible/mask_prepared.h"

fv_range fv_prepared_bounds(const fovea_mask *m, const fv_mask_rows *at) {
    return m->ranges[fv_prepared_head(m, at) * m->kept_rows + fv_prepared_row(m, at)];
}

bool fv_prepared_one_row(const fovea_mask *m) { return m->kept_rows == 1; }

fv_visibility fv_prepared_classify(const fovea_mask *m, const fv_mask_rows *first, int64_t count, int64_t column) {
    if (column % FV_SEGMENT != 0)
        return FV_VISIBLE_SOME;
    const int64_t head = fv_prepared_head(m, first), begin = fv_prepared_row(m, first),
                  end = m->kept_rows == 1 ? 1 : begin + count;
    bool none = true, ranges = true;
    for (int64_t row = begin; row < end; row = fv_round_down(row, FV_PREPARED_ROWS) + FV_PREPARED_ROWS) {
        const int64_t tile = *fv_prepared_tile(m, head, row, column / FV_SEGMENT);
        none = none && tile < FV_PREPARED_RANGES;
        ranges = ranges && (tile == FV_PREPARED_RANGES || tile == FV_PREPARED_OUTSIDE);
    }
    return none ? FV_VISIBLE_NONE : ranges ? FV_VISIBLE_ALL : FV_VISIBLE_SOME;
}

/* Bits of a row in a segment of the mask. */
static fv_keybits segment_bits(const fovea_mask *m, const fv_mask_rows *at, int64_t segment) {
    const int64_t row = fv_prepared_row(m, at);
    if (segment >= m->segments)
        return (fv_keybits){{0}};
    const int64_t tile = *fv_prepared_tile(m, fv_prepared_head(m, at), row, segment);
    if (tile >= 0)
        return m->bits[tile * FV_PREPARED_ROWS + row % FV_PREPARED_ROWS];
    return tile == FV_PREPARED_RANGES ? fv_range_bits(fv_range_in_segment(fv_prepared_bounds(m, at), segment))
                                      : (fv_keybits){{0}};
}

fv_keybits fv_prepared_bits(const fovea_mask *m, const fv_mask_rows *at, int64_t column) {
    enum { WORDS = FV_SEGMENT / 64 };
    const int64_t segment = column / FV_SEGMENT, words = column % FV_SEGMENT / 64, shift = column % 64;
    const fv_keybits here = segment_bits(m, at, segment);
    if (column % FV_SEGMENT == 0)
        return here;
    const fv_keybits next = segment_bits(m, at, segment + 1);
    uint64_t both[2 * WORDS + 1] = {0};
    for (int i = 0; i < WORDS; i++) {
        both[i] = here.word[i];
        both[WORDS + i] = next.word[i];
    }
    fv_keybits bits;
    for (int i = 0; i < WORDS; i++)
        bits.word[i] = both[words + i] >> shift | (shift ? both[words + i + 1] << (64 - shift) : 0);
    return bits;
}
