/* A block of rows on its way through the segments of its keys: the flash loop. */
#ifndef FV_ATTENTION_BLOCK_H
#define FV_ATTENTION_BLOCK_H

#include "attention/flash/prefetch.h"
#include "attention/plan/plan.h"
#include "attention/plan/schedule.h"
#include "attention/sources/source.h"
#include "attention/visible/mask.h"
#include "attention/visible/visible.h"

#include <stdbool.h>

/* Tiles and segments, for fovea_attention_stats. */
typedef struct fv_block_count {
    int64_t tiles, visited, full, paired;
} fv_block_count;

/* The keys that the rows of a block see, as ranges. */
typedef struct fv_rows_seen {
    fv_range range;      /* of keys that any of the rows sees */
    bool uniform;        /* does each of them see all of it? */
    bool ascending;      /* all of one query head: do both ends of their ranges move one way, those that see nothing
                            first or last? */
    bool single_segment; /* do all these keys lie in one segment? */
    bool padding;        /* no row is a query; the other fields of the block are then unset */
} fv_rows_seen;

/* One thread's work on one row block. */
typedef struct fv_block {
    const fv_schedule *schedule;
    const fovea_attention_plan *plan; /* the schedule's, as args */
    const fovea_attention_args *args;
    const fv_scratch *to;              /* the thread's */
    fv_mask mask;                      /* one that selects keys */
    fovea_tensor bias;                 /* that of the plan, or its additive mask; stride 0 where it repeats */
    int64_t row_block, next_row_block; /* their indices: this one and the one after it */
    fv_sequence sequence;
    int64_t kv_head;
    fv_row_place first; /* its first row */
    int64_t rows, tile_count;
    fv_rows_seen seen;
    fv_queries queries;
    fv_keys keys;
    fv_values values;
    float *lse; /* of the rows: in the scratch, or, of split blocks, among the partials */
    fv_block_count count;
    fv_prefetch_queue queue; /* what is prefetched meanwhile */
} fv_block;

/* padding.c: is no row of a block a query? Writes out and lse of those of some rows that are none. */
bool fv_block_is_padding(const fv_block *block);
void fv_block_pad(const fv_block *block, int64_t first, int64_t rows);

/* A block without rows, in one thread's scratch. */
void fv_block_init(fv_block *block, const fv_schedule *schedule, const fv_scratch *scratch);

/* Opens block `row_block`: computes its ranges and scales its queries. next: the block after it, or schedule->blocks or
 * more if there is none. */
void fv_block_open(fv_block *block, int64_t row_block, int64_t next);

/* All segments in order, merged as they come, then outputs and, where asked for, lse. */
void fv_block_run(fv_block *block);

/* Segments [begin, end) that the block sees. */
static inline fv_range fv_block_segments(const fv_block *x) {
    return (fv_range){x->seen.range.begin / FV_SEGMENT, fv_ceil_div(x->seen.range.end, FV_SEGMENT)};
}

/* The first segment from one on, at most end, that the block sees; and that it may see, as far as ranges and lists tell
 * it. The time depends on what is visible, not on what lies between. */
int64_t fv_block_next_visible(const fv_block *block, int64_t segment, int64_t end);
int64_t fv_block_next_listed(const fv_block *block, int64_t segment, int64_t end);

/* Blocks whose keys are split: the results of one segment that the block sees into *partial, before those up to end,
 * which this thread does next; later all of them, in order, into outputs and lse, of some of the rows. */
void fv_block_run_segment(fv_block *block, int64_t segment, int64_t end, const fv_partial *partial);
void fv_block_merge(fv_block *block, const fv_work_item *item, char *partials, fv_range rows);

#endif
