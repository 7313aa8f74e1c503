/* Blocks of few rows, as at decode: keys and values are read once, as they lie, and nothing is packed or widened in memory. */
#ifndef FV_ATTENTION_THIN_H
#define FV_ATTENTION_THIN_H

#include "attention/tile.h"

/* Is an opened block thin? Then its queries are interleaved for dot. */
void fv_thin_open(fv_block *block);

/* Scores of a tile, all rows of the block, as fv_tile_scores() begins. */
void fv_thin_scores(fv_block *block, const fv_tile *tile, const fv_segment *segment);

/* Values of 16 bits of a run, as the gemm of values: weights are those of rows rows and the run's keys. */
void fv_thin_values(const fovea_attention_plan *plan, int64_t rows, int64_t keys, const float *weights,
                    const fv_kv_run *run, float *c, int64_t ldc, const fv_epilogue *epilogue, fv_prefetch *prefetch);

#endif
