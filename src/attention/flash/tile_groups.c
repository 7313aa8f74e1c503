/* Keys of the groups of a tile's rows (tile_groups.h). */
#include "attention/flash/tile_groups.h"

fv_range fv_rows_range(const fv_block *x, int64_t row, int64_t rows, int64_t segment, bool *same) {
    const fv_range first = fv_range_in_segment(x->to->ranges[row], segment),
                   last = fv_range_in_segment(x->to->ranges[row + rows - 1], segment);
    fv_range all = first;
    *same = true;
    if (x->seen.ascending && first.begin < first.end && last.begin < last.end) {
        *same = first.begin == last.begin && first.end == last.end;
        return (fv_range){first.begin, last.end};
    }
    for (int64_t i = 1; i < rows && !x->seen.uniform; i++) {
        const fv_range r = fv_range_in_segment(x->to->ranges[row + i], segment);
        *same = *same && r.begin == first.begin && r.end == first.end;
        all = fv_range_union(all, r);
    }
    return all;
}

/* Keys that rows [first, first + rows) of a tile whose rows see different ones see. */
static fv_range keys_of_rows(const fv_block *x, const fv_tile *t, int64_t segment, int64_t first, int64_t rows) {
    bool same;
    if (!t->masked)
        return fv_rows_range(x, t->row + first, rows, segment, &same);
    fv_keybits any = {{0}};
    for (int64_t i = first; i < first + rows; i++)
        for (int w = 0; w < FV_SEGMENT / 64; w++)
            any.word[w] |= t->bits[i].word[w];
    return fv_bits_range(&any);
}

void fv_tile_list_groups(const fv_block *x, const fv_tile *t, int64_t segment) {
    for (int64_t first = 0, i = 0; first < t->rows; first += t->group_rows, i++)
        x->to->groups[i] =
            t->mixed ? keys_of_rows(x, t, segment, first, fv_min(t->group_rows, t->rows - first)) : t->keys;
}

void fv_tile_bits_alike(const fv_block *x, fv_tile *t) {
    t->mixed = false;
    t->bits_step = 0;
    t->bits = x->to->bits;
    if (t->keys.begin == t->columns.begin && t->keys.end == t->columns.end)
        t->bits = NULL;
    else
        x->to->bits[0] = fv_range_bits(t->keys);
}

void fv_tile_masked(fv_block *x, fv_tile *t, int64_t segment, bool masked) {
    const bool whole = t->mixed && t->alike && !masked && !t->selected;
    if (whole)
        fv_tile_bits_alike(x, t);
    if (whole || masked)
        fv_tile_list_groups(x, t, segment);
}
