/* What the next item reads and writes, brought near by the gemms of this one (fv_merge.next), which leave memory idle.
 */
#ifndef FV_ATTENTION_NEXT_H
#define FV_ATTENTION_NEXT_H

#include "attention_plan.h"
#include "near.h"

/* Queries, keys, values and outputs of one item, in the order in which they are needed. */
typedef struct fv_next {
    fv_near part[4];
    int count, now; /* parts; the one that is being brought near */
} fv_next;

/* Item number item is the next one. Nothing is brought near where an item is so large that the second-level cache does
 * not hold two of them, nor where its rows do not lie one behind the other. */
void fv_next_open(fv_next *next, const fovea_attention_plan *plan, const fovea_attention_args *args, int64_t item);

/* What a call of gemm for rows rows and k steps of k brings near: a line a step. */
void fv_next_take(fv_next *next, const fv_kernel *gemm, int64_t rows, int64_t k, fv_merge *merge);

#endif
