/* The work of a call, dealt: which blocks there are, and who takes which.
 *
 * Where all sequences have as many rows, a block is found by arithmetic. Packed sequences have as many blocks as their own
 * rows make, found in a table in the workspace: sequences of the most work first, so that none of them comes last, and a
 * thread claims a share of the work that is left, not of the blocks. */
#ifndef FV_ATTENTION_DEAL_H
#define FV_ATTENTION_DEAL_H

#include "attention/plan.h"
#include "attention/visible.h"

#include <stdatomic.h>

/* Packed sequences of a place and all behind it. */
typedef struct fv_deal_place {
    int64_t sequence;
    int64_t items, units; /* before it; units: of the pass */
    double work;          /* of it and those behind it, in rows times keys */
} fv_deal_place;

typedef struct fv_deal {
    const fovea_attention_plan *plan;
    const fovea_attention_args *args;
    const fv_kv *kv;
    fv_deal_place *places; /* [batch + 1], the last one behind all; NULL: sequences of as many rows */
    int64_t items;
} fv_deal;

/* table: in the workspace, of fv_deal_bytes(). */
fv_deal fv_deal_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv, void *table);
int64_t fv_deal_bytes(const fovea_attention_plan *plan);

/* What is computed in one item: rows [first_row, first_row + rows) of a key head. */
typedef struct fv_item {
    int64_t batch, kv_head, first_row, rows;
} fv_item;

fv_item fv_deal_item(const fv_deal *deal, int64_t item);

/* What a pass goes over: items; runs of the segments of each; segments of keys, with all items of a key head or, where blocks
 * hold rows of one query head each, of that head. */
typedef enum fv_pass { FV_PASS_ITEMS, FV_PASS_RUNS, FV_PASS_KEYS } fv_pass;

/* Items [item, item + items), and one of the chunks that their keys are cut into. */
typedef struct fv_unit {
    int64_t item, items, chunk, chunks;
} fv_unit;

/* Begins a pass; returns its number of units. */
int64_t fv_deal_pass(fv_deal *deal, fv_pass pass);
fv_unit fv_deal_unit(const fv_deal *deal, fv_pass pass, int64_t unit);

/* Claims units of the pass, [first, *end) with first returned, empty when none is left (threads.h: fv_claim). */
int64_t fv_deal_claim(const fv_deal *deal, int64_t count, _Atomic int64_t *next, int64_t *end);

#endif
