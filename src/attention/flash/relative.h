/* Relative biases: what a query's and a key's positions add to their score (fovea_relative). None is expanded: of a
 * block and a segment, each head has a line of the biases of all distances between them, and the bias of a row is a
 * window of it. Rows of a 2-D window are made one by one. */
#ifndef FV_ATTENTION_RELATIVE_H
#define FV_ATTENTION_RELATIVE_H

#include "attention/flash/block.h"

/* Makes the lines of a segment. */
void fv_relative_open(const fv_block *block, int64_t segment);

/* The biases of a row for these keys of a segment; element k is that of key k. */
const float *fv_relative_row(const fv_block *block, int64_t row, int64_t segment, fv_range keys);

#endif
