/* Products: of the scores of a tile, and of its weights with values. Private to the flash loop, as tile.h. Neither asks
 * a type or a layout: operands come from the block's sources (sources/source.h). */
#ifndef FV_ATTENTION_PRODUCTS_H
#define FV_ATTENTION_PRODUCTS_H

#include "attention/flash/tile.h"

/* Products that were deferred, to be overlapped with a softmax. */
typedef struct fv_products {
    fv_product of[16];
    int64_t count;
} fv_products;

/* Defers a product of the kernel over tiles. If the queue is full, the earlier products are computed first. */
void fv_products_defer(fv_products *deferred, const fv_kernel *product, const fv_product *it);

/* Where results of a tile go, from its first row on: m and l of the segment, and outputs, of which fv_epilogue says
 * what becomes of what is there; b: running M, L and O, into which they are merged. */
typedef struct fv_destination {
    float *m, *l, *o;
    int64_t stride;
    const float *a, *b;
} fv_destination;

/* Scores of rows of a tile (scores.c); were all products those of words? */
bool fv_scores_multiply(fv_block *block, const fv_tile *tile, int64_t segment, fv_range rows, fv_products *deferred);

/* Products of the weights of rows of a tile and the values that they see (values.c). */
void fv_values_multiply(fv_block *block, const fv_tile *tile, fv_range rows, const fv_destination *to,
                        fv_products *deferred);

/* Outputs of rows that see no key, unless there are some already. */
void fv_no_values(const fv_block *block, const fv_destination *to, int64_t first, int64_t rows);

#endif
