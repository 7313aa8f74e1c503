/* The stages that scores go through between the product of queries and keys and the softmax. score.c lists them, with
 * two rules: whether the product's row maxima are still those of the scores, and whether exp can underflow. */
#ifndef FV_ATTENTION_SCORE_H
#define FV_ATTENTION_SCORE_H

#include "attention/flash/tile.h"

/* The factor c that remains after the stages up to a kind of scores, multiplied in as scores are read: 1 after a
 * pass. */
float fv_score_c(const fovea_attention_plan *plan, fovea_score_kind kind);

/* Does any stage go over the scores? */
bool fv_score_passes(const fovea_attention_desc *desc);

/* May a stage take keys out of what rows see by their ranges? */
bool fv_score_masks(const fovea_attention_desc *desc);

/* How many of a tile's `rows` rows one call of the product of scores takes: fewer if a bias is prefetched meanwhile. */
int64_t fv_score_rows(const fv_block *block, const fv_tile *tile, int64_t rows);

/* Before such a call: prefetches what the passes read of the bias there. */
void fv_score_prefetch(const fv_block *block, int64_t row, int64_t rows, int64_t segment, fv_range columns);

/* The passes over the scores of a tile, in order, up to a kind of scores. They may take keys out of its bits, and find
 * maxima. */
void fv_score_stages(fv_block *block, fv_tile *tile, int64_t segment, fovea_score_kind kind);

/* All rows of a tile see the columns before this one, whose maxima come with the product; columns.begin: none. */
int64_t fv_score_row_max_end(const fv_block *block, const fv_tile *tile, int64_t segment);

/* Are norms of queries and keys worth their cost? They may tell that exp cannot underflow. */
bool fv_score_asks_norms(const fv_block *block);

/* Is exp(s - m) a normal number for all scores of the open segment? */
bool fv_score_no_underflow(const fv_block *block);

#endif
