/* Relative biases: what a query's and a key's positions add to their score (fovea_relative). None is expanded: of a
 * block and a segment, each head has a line of the biases of all distances between them, and the bias of a row is a
 * window of it. Rows of a 2-D window are made one by one. */
#ifndef FV_ATTENTION_RELATIVE_H
#define FV_ATTENTION_RELATIVE_H

#include "attention/flash/block.h"

/* Is a description's relative bias well described? */
fovea_status fv_relative_check_desc(const fovea_attention_desc *desc);

/* Is what arguments say of it, beside what is checked of any tensor? */
fovea_status fv_relative_check_args(const fovea_attention_plan *plan, const fovea_attention_args *args);
/* Do keys and queries lie in a two-dimensional window? Of checked arguments; of a cache once it is read, which knows
 * lengths. */
fovea_status fv_relative_check_sequences(const fovea_attention_plan *plan, const fovea_attention_args *args);

/* Entries of args.relative for each head; TOEPLITZ: any odd number, that of the tensor. */
int64_t fv_relative_entries(const fovea_attention_desc *desc, const fovea_tensor *relative);

/* T5: starts[b] = the least distance of bucket b, of all that one direction has; returns how many these are. */
int64_t fv_relative_buckets(const fovea_attention_desc *desc);
void fv_relative_bucket_starts(const fovea_attention_desc *desc, int64_t *starts);

/* Floats of the lines of a block. */
int64_t fv_relative_floats(const fovea_attention_plan *plan);

/* Makes the lines of a segment. */
void fv_relative_open(const fv_block *block, int64_t segment);

/* The biases of a row for these keys of a segment; element k is that of key k. */
const float *fv_relative_row(const fv_block *block, int64_t row, int64_t segment, fv_range keys);

#endif
