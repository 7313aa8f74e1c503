/* A segment of keys and the tiles of a block that go through it. Private to the flash loop: block.c drives,
 * visible_segment.c says what rows see, tile.c computes. */
#ifndef FV_ATTENTION_TILE_H
#define FV_ATTENTION_TILE_H

#include "attention/flash/block.h"
#include "core/core.h"

#include <assert.h>

/* Rows of a block that go through a segment together. */
typedef struct fv_tile {
    int64_t row, rows;      /* in the block */
    int64_t group_rows;     /* rows that share a range of keys in the products */
    fv_range keys;          /* relative to the segment; empty: no row sees any */
    fv_range columns;       /* keys, widened to multiples of FV_LANES */
    const fv_keybits *bits; /* of the first row, NULL: all columns */
    int64_t bits_step;
    bool alike;    /* all rows see keys by their ranges */
    bool selected; /* a mask took keys of some row's range: bits, not ranges, say what rows see */
    bool masked;   /* or a pass over the scores may */
    bool mixed;    /* some row may not see some of keys */
    /* All rows see the columns before it, whose maxima come with their scores; columns.begin: none. */
    int64_t row_max_end;
    bool row_max_masked; /* but they see what bits tell, and the maxima are those of that */
} fv_tile;

/* Opens the keys of a segment, and its values where weights are to be multiplied with them. */
void fv_segment_open(fv_block *block, int64_t segment, bool values);

/* Brings the block's ranges to those that its mask leaves, as far as ranges can say it. */
void fv_block_narrow(fv_block *block);

/* Does any row of the block see a key of a segment? */
bool fv_block_sees(const fv_block *block, int64_t segment);

/* Finds the keys of a segment that the rows of a tile see. */
fv_tile fv_tile_open(const fv_block *block, const fv_tile_rows *place, int64_t segment);

/* Scores of a tile, after the stages up to a kind of scores; what is left of c (score.h) is not in them. Were all
 * products those of words? */
bool fv_tile_scores(fv_block *block, fv_tile *tile, int64_t segment, fovea_score_kind kind);

/* A tile through a segment: its values are merged into the running outputs or, if the segment is the block's only one,
 * stored in the caller's where they lie evenly. A tile of which no row sees a key of the segment does nothing. */
void fv_tile_run(fv_block *block, fv_tile_rows *place, int64_t segment);

/* The same into a partial. */
void fv_tile_run_partial(fv_block *block, const fv_tile_rows *place, int64_t segment, const fv_partial *partial);

/* Where a row of the block is in the caller's tensors. */
static inline fv_row_place fv_place_of(const fv_block *x, int64_t row) {
    assert(row >= 0 && row < x->rows);
    return fv_row_in_sequence(&x->sequence, x->first, row);
}

/* How many rows from row on, at most limit, have the same head. */
static inline int64_t fv_run_of_head(const fv_block *x, int64_t row, int64_t limit) {
    return fv_min(limit, x->sequence.tokens.end - fv_place_of(x, row).token);
}

/* Do all rows belong to one query head? */
static inline bool fv_block_one_head(const fv_block *x) { return fv_run_of_head(x, 0, x->rows) == x->rows; }

static inline void *fv_address(const fovea_tensor *t, int64_t batch, int64_t head, int64_t token) {
    const int64_t element = batch * t->stride[0] + head * t->stride[1] + token * t->stride[2];
    return (char *)t->data + element * fv_dtype_size(t->dtype);
}

static inline float *fv_element(const fovea_tensor *t, int64_t batch, int64_t head, int64_t token) {
    return fv_address(t, batch, head, token);
}

static inline void *fv_row_address(const fv_block *x, const fovea_tensor *t, int64_t row) {
    const fv_row_place at = fv_place_of(x, row);
    return fv_address(t, x->sequence.entry, at.head, at.token);
}

/* In a tensor of floats. */
static inline float *fv_row_element(const fv_block *x, const fovea_tensor *t, int64_t row) {
    assert(t->dtype == FOVEA_DTYPE_F32);
    return fv_row_address(x, t, row);
}

/* In a tensor with a column for each key: that of the first key of a segment. */
static inline int64_t fv_first_column(const fv_block *x, int64_t segment) {
    return x->sequence.kv_start + segment * FV_SEGMENT;
}

/* m and l of rows that see no key. */
void fv_no_keys(float *m, float *l, int64_t rows);

#endif
