/* The current products, which leave memory idle, prefetch what is read and written next (fv_prefetch.next): all of the
 * next block if the second-level cache holds two (the plan's fetches_next), else segment by segment. If all rows are
 * one tile, prefetching runs half a segment ahead: a segment's values during its scores, the next segment's keys during
 * its values. Only contiguous rows are prefetched. */
#ifndef FV_ATTENTION_PREFETCH_H
#define FV_ATTENTION_PREFETCH_H

#include "attention/plan/plan.h"
#include "attention/plan/schedule.h"
#include "attention/sources/kv.h"
#include "attention/visible/mask.h"
#include "attention/visible/visible.h"
#include "dispatch/dispatch.h"

/* Rows of one operand: what is contiguous, and behind it keys [key, end) of a side. */
typedef struct fv_prefetch_part {
    fv_prefetch_range range;
    const fv_kv_side *side;
    int64_t sequence, head, key, end;
} fv_prefetch_part;

/* Rows of queries, keys, values and outputs, in the order in which they are needed. */
typedef struct fv_prefetch_queue {
    fv_prefetch_part outputs; /* of the tile that is being computed */
    fv_prefetch_part part[4];
    int count, now; /* parts; the one that is being prefetched */
    int64_t floats; /* that a call may prefetch on average, or -1: as many as it can */
    int64_t credit; /* what calls before were allowed and did not take */
    bool one_tile;  /* then by the products of these: */
    fv_prefetch_part with_scores, with_values;
} fv_prefetch_queue;

/* Before a block: number block is the one after it. Where the cache does not hold two, only clears what was before. */
void fv_prefetch_open(fv_prefetch_queue *queue, const fv_schedule *schedule, int64_t block);

/* Before tiles tiles go through a segment: what is needed after it, evenly; of block number block the segment of a key,
 * or queries and first segment if key < 0: the first that the mask lets its first or its last row see. */
void fv_prefetch_segment(fv_prefetch_queue *queue, const fv_schedule *schedule, const fv_mask *mask, int64_t block,
                         int64_t key, int64_t tiles);

/* Before one tile goes through a segment of block number block, of which it sees these keys: its values are prefetched
 * while its scores are computed, and while values are, the keys of the segment of key next_key of block number
 * following, of its first segment if next_key < 0. */
void fv_prefetch_one_tile(fv_prefetch_queue *queue, const fv_schedule *schedule, const fv_mask *mask, int64_t block,
                          fv_range keys, int64_t following, int64_t next_key);

/* Before the last segment of the rows from first on: their outputs. */
void fv_prefetch_outputs(fv_prefetch_queue *queue, const fovea_attention_args *args, const fv_sequence *sequence,
                         fv_row_place first, int64_t rows);

/* Nothing is prefetched: hardware does it. */
void fv_prefetch_nothing(fv_prefetch_queue *queue);

/* Sets what a product of `rows` rows prefetches: the product of scores of `keys` keys, and the product with the values
 * of `keys` keys, whose prefetch says whether they stream. */
void fv_prefetch_with_scores(fv_prefetch_queue *queue, const fovea_attention_plan *plan, const fv_kernel *product,
                             int64_t rows, int64_t keys, fv_prefetch *prefetch);
void fv_prefetch_with_values(fv_prefetch_queue *queue, const fovea_attention_plan *plan, const fv_kernel *product,
                             int64_t rows, int64_t keys, fv_prefetch *prefetch);

#endif
