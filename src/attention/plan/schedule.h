/* The schedule of a call: which blocks there are, which of them are split over keys, and who takes what.
 *
 * Blocks are found through a table of sequences in the workspace: one row where all are alike, else a row for each
 * sequence, those of the most work first. A thread claims a share of the work that is left, not of the blocks. Blocks
 * that would keep one thread busy while others have nothing left are split: their keys are cut into chunks, whose
 * segments are merged when all are there. So any batch keeps all threads busy until its end, and no bit depends on
 * it. */
#ifndef FV_ATTENTION_SCHEDULE_H
#define FV_ATTENTION_SCHEDULE_H

#include "attention/plan/plan.h"
#include "attention/visible/visible.h"

#include <stdatomic.h>

/* The blocks of a key head of a sequence: equal parts of its rows, or of those of each query head. */
typedef struct fv_head_blocks {
    int64_t partition, rows, parts, count;
} fv_head_blocks;

/* A sequence, or all of a batch of equal ones. */
typedef struct fv_scheduled_sequence {
    int64_t first;    /* its number */
    int64_t segments; /* of its keys, at least 1 */
    fv_head_blocks head;
    int64_t count, whole, chunks; /* blocks; unsplit blocks, which come first; chunks of each split block */
    int64_t blocks, items;        /* before it; items: of the pass */
    int64_t partials;             /* floats of partial results before those of its blocks */
    double block_work, work;      /* in rows times keys; work: of it and those behind it */
} fv_scheduled_sequence;

typedef struct fv_schedule {
    const fovea_attention_plan *plan;
    const fovea_attention_args *args;
    const fv_kv *kv;
    fv_scheduled_sequence *sequences; /* [count + 1], the last one behind all */
    int64_t count, blocks;
    int64_t split; /* blocks whose keys are split */
} fv_schedule;

/* table: in the workspace, of fv_schedule_bytes(). */
fv_schedule fv_schedule_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv,
                             void *table);
int64_t fv_schedule_bytes(const fovea_attention_plan *plan);

/* Floats of the partial results that a plan has room for; -1: more than memory. */
int64_t fv_schedule_partial_floats(const fovea_attention_plan *plan);

/* The rows of one block: [first_row, first_row + rows) of a key head. */
typedef struct fv_row_block {
    int64_t batch, kv_head, first_row, rows;
} fv_row_block;

fv_row_block fv_schedule_block(const fv_schedule *schedule, int64_t block);

/* The items of each pass: WORK, blocks, or chunks of split ones; for split blocks then MERGE, parts of their rows,
 * SPLIT, the blocks, and CHUNKS, their chunks; KEYS, segments of keys with all blocks of a key head or, if blocks hold
 * rows of one query head each, of that head. */
typedef enum fv_pass { FV_PASS_WORK, FV_PASS_MERGE, FV_PASS_SPLIT, FV_PASS_CHUNKS, FV_PASS_KEYS } fv_pass;

/* Blocks [block, block + blocks), and one of the chunks that their keys, in FV_PASS_MERGE their rows, are cut into. */
typedef struct fv_work_item {
    int64_t block, blocks, chunk, chunks;
    bool split;
    int64_t partials, rows; /* of split blocks: floats before their partial results, rows of each */
} fv_work_item;

/* Begins a pass; returns its number of items. */
int64_t fv_schedule_pass(fv_schedule *schedule, fv_pass pass);
fv_work_item fv_schedule_item(const fv_schedule *schedule, fv_pass pass, int64_t item);

/* The node of its keys, if the kv tells nodes. */
int fv_schedule_node(const fv_schedule *schedule, const fv_work_item *item);

/* The results of a segment of a split block, counted from the first one that it sees. */
fv_partial fv_schedule_partial(const fv_schedule *schedule, const fv_work_item *item, char *partials, int64_t segment);

/* Claims items of the pass, [first, *end) with first returned, empty when none is left (threads.h: fv_claim). */
int64_t fv_schedule_claim(const fv_schedule *schedule, int64_t count, _Atomic int64_t *next, int64_t *end);

#endif
