/* Keys and values read as they lie, nothing packed or widened in memory: by blocks of few rows, as at decode, and where
 * keys or values are int8 by those of any number of rows. A block whose keys are int8 is one tile. */
#ifndef FV_ATTENTION_DECODE_H
#define FV_ATTENTION_DECODE_H

#include "attention/flash/tile.h"

/* Does an opened block read keys and values so? Its queries become integers if keys are. */
void fv_decode_open(fv_block *block);

/* Does the hardware prefetch what an opened block reads: interleaved keys and values, all in the order in which they
 * lie, for so few rows that products take less time than memory? Then prefetching would only be in the way. Figures:
 * docs/measurements.md, "multiply_rows.h". */
bool fv_decode_prefetched(const fv_block *block);

/* Scores of a tile, all rows of the block, as fv_tile_scores() begins. */
void fv_decode_scores(fv_block *block, const fv_tile *tile, const fv_segment *segment);

/* Values as they lie, times the weights of rows rows. Weights of values with scales are multiplied by these in
 * place. */
void fv_decode_values(const fovea_attention_plan *plan, int64_t rows, float *weights, const fv_operand *values,
                      float *c, int64_t ldc, const fv_epilogue *epilogue, fv_prefetch *prefetch);

#endif
