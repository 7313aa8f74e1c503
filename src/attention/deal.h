/* The work of a call, dealt: which blocks there are, which of them are split over keys, and who takes what.
 *
 * Blocks are found through a table of places in the workspace: one place where all sequences are alike, else one for
 * each sequence, those of the most work first. A thread claims a share of the work that is left, not of the blocks.
 * Blocks that would keep one thread busy while others have nothing left are split: their keys are cut into chunks,
 * whose segments' results are merged when all are there. So any batch keeps all threads busy until its end, and no bit
 * depends on it. */
#ifndef FV_ATTENTION_DEAL_H
#define FV_ATTENTION_DEAL_H

#include "attention/plan.h"
#include "attention/visible.h"

#include <stdatomic.h>

/* The blocks of a key head of a sequence: equal parts of its rows, or of those of each query head. */
typedef struct fv_deal_blocks {
    int64_t partition, rows, parts, count;
} fv_deal_blocks;

/* A sequence, or all of a batch of equal ones. */
typedef struct fv_deal_place {
    int64_t sequence; /* the first */
    int64_t segments; /* of its keys, at least 1 */
    fv_deal_blocks blocks;
    int64_t count, whole, chunks; /* items; of them the first ones, which are not split; chunks of each of the others */
    int64_t items, units;         /* before it; units: of the pass */
    int64_t partials;             /* floats of partial results before those of its items */
    double item_work, work;       /* in rows times keys; work: of it and those behind it */
} fv_deal_place;

typedef struct fv_deal {
    const fovea_attention_plan *plan;
    const fovea_attention_args *args;
    const fv_kv *kv;
    fv_deal_place *places; /* [count + 1], the last one behind all */
    int64_t count, items;
    int64_t split; /* items whose keys are split */
} fv_deal;

/* table: in the workspace, of fv_deal_bytes(). */
fv_deal fv_deal_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv, void *table);
int64_t fv_deal_bytes(const fovea_attention_plan *plan);

/* Floats of the partial results that a plan has room for; -1: more than memory. */
int64_t fv_deal_partial_floats(const fovea_attention_plan *plan);

/* What is computed in one item: rows [first_row, first_row + rows) of a key head. */
typedef struct fv_item {
    int64_t batch, kv_head, first_row, rows;
} fv_item;

fv_item fv_deal_item(const fv_deal *deal, int64_t item);

/* What a pass goes over: items, or chunks of those that are split; of split items then parts of their rows, the items,
 * and chunks; segments of keys, with all items of a key head or, where blocks hold rows of one query head each, of that
 * head. */
typedef enum fv_pass { FV_PASS_WORK, FV_PASS_MERGE, FV_PASS_SPLIT, FV_PASS_CHUNKS, FV_PASS_KEYS } fv_pass;

/* Items [item, item + items), and one of the chunks that their keys, in FV_PASS_MERGE their rows, are cut into. */
typedef struct fv_unit {
    int64_t item, items, chunk, chunks;
    bool split;
    int64_t partials, rows; /* of split items: floats before their partial results, rows of each */
} fv_unit;

/* Begins a pass; returns its number of units. */
int64_t fv_deal_pass(fv_deal *deal, fv_pass pass);
fv_unit fv_deal_unit(const fv_deal *deal, fv_pass pass, int64_t unit);

/* The results of a segment of a split item, counted from the first one that it sees. */
fv_partial fv_deal_partial(const fv_deal *deal, const fv_unit *unit, char *partials, int64_t segment);

/* Claims units of the pass, [first, *end) with first returned, empty when none is left (threads.h: fv_claim). */
int64_t fv_deal_claim(const fv_deal *deal, int64_t count, _Atomic int64_t *next, int64_t *end);

#endif
