/* The groups of edge_rows rows by which products go through a tile whose rows see different keys. */
#ifndef FV_ATTENTION_TILE_GROUPS_H
#define FV_ATTENTION_TILE_GROUPS_H

#include "attention/flash/tile.h"

/* The keys of a segment that any of these rows of a block sees, by their ranges; do all of them see the same ones? */
fv_range fv_rows_range(const fv_block *block, int64_t row, int64_t rows, int64_t segment, bool *same);

/* Lists the keys of each group in block->to->groups. */
void fv_tile_list_groups(const fv_block *block, const fv_tile *tile, int64_t segment);

/* All rows see the tile's keys. */
void fv_tile_bits_alike(const fv_block *block, fv_tile *tile);

/* After passes over the scores of a tile that could mask keys, and did or did not. */
void fv_tile_masked(fv_block *block, fv_tile *tile, int64_t segment, bool masked);

#endif
