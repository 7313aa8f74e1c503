/* Prepared masks: read once, kept as a range for each row and, of each tile of FV_PREPARED_ROWS rows and a segment,
 * whether the ranges say all that its rows see, or else the bits of each row. Sequences, heads and rows that repeat are
 * kept once. mask_create.c makes them. */
#ifndef FV_ATTENTION_MASK_PREPARED_H
#define FV_ATTENTION_MASK_PREPARED_H

#include "attention/visible/mask.h"

enum { FV_PREPARED_ROWS = 64 };

/* A tile: no row sees a key of it, and the ranges say so or not; the ranges say all; else where its bits begin. */
enum { FV_PREPARED_OUTSIDE = -3, FV_PREPARED_HOLE = -2, FV_PREPARED_RANGES = -1 };

struct fovea_mask {
    int64_t batch, q_heads, q_len, kv_len;     /* of the description */
    int64_t kept_batch, kept_heads, kept_rows; /* 1 where it repeats */
    int64_t row_tiles, segments;               /* of a head */
    int64_t mixed;                             /* tiles that have bits */
    fv_range *ranges;                          /* [kept_batch][kept_heads][kept_rows] */
    int64_t *tiles;                            /* [kept_batch][kept_heads][row_tiles][segments] */
    fv_keybits *bits;                          /* [mixed][FV_PREPARED_ROWS] */
};

static inline int64_t fv_prepared_head(const fovea_mask *m, const fv_mask_rows *at) {
    return (m->kept_batch == 1 ? 0 : at->batch) * m->kept_heads + (m->kept_heads == 1 ? 0 : at->head);
}

static inline int64_t fv_prepared_row(const fovea_mask *m, const fv_mask_rows *at) {
    return m->kept_rows == 1 ? 0 : at->row;
}

static inline int64_t *fv_prepared_tile(const fovea_mask *m, int64_t head, int64_t row, int64_t segment) {
    return &m->tiles[(head * m->row_tiles + row / FV_PREPARED_ROWS) * m->segments + segment];
}

/* Its answers, as those of other masks (mask.h), and the bits of a row in the segment that begins with a column. */
fv_range fv_prepared_bounds(const fovea_mask *mask, const fv_mask_rows *row);
fv_visibility fv_prepared_classify(const fovea_mask *mask, const fv_mask_rows *first, int64_t count, int64_t column);
fv_keybits fv_prepared_bits(const fovea_mask *mask, const fv_mask_rows *row, int64_t column);
bool fv_prepared_one_row(const fovea_mask *mask);

#endif
