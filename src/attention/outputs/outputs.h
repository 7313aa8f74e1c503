/* A block's outputs besides out and lse (fovea/outputs.h): views of scores and weights, statistics of rows, sums of
 * keys. All go through the tiles again, now that the lse of each row is known. */
#ifndef FV_ATTENTION_OUTPUTS_H
#define FV_ATTENTION_OUTPUTS_H

#include "attention/flash/asked.h"
#include "attention/flash/block.h"

/* Segments of the sequence for which there are columns: one at least. */
int64_t fv_outputs_segments(const fv_block *block);

/* Statistics of the block's rows. */
void fv_outputs_write_rows(fv_block *block);

/* Views, for segments [begin, end) of fv_outputs_segments(). The last use of an opened block: its ranges change. */
void fv_outputs_write_views(fv_block *block, int64_t begin, int64_t end);

/* Sums of the keys of a segment. Blocks of a head come in order of their rows. */
typedef struct fv_key_sums {
    int64_t sequence, head, number; /* of a head, those of a block of 64 queries */
    float block[FV_SEGMENT], all[FV_SEGMENT];
} fv_key_sums;

void fv_outputs_sums_begin(fv_key_sums *sums);
void fv_outputs_sums_add(fv_block *block, int64_t segment, fv_key_sums *sums);
void fv_outputs_sums_end(const fv_block *block, int64_t segment, fv_key_sums *sums);

/* Sets all sums to zero, before. */
void fv_outputs_sums_clear(const fovea_attention_args *args);

#endif
