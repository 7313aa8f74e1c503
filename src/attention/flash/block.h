/* A block of rows on its way through the segments of its keys: the flash loop. */
#ifndef FV_ATTENTION_BLOCK_H
#define FV_ATTENTION_BLOCK_H

#include "attention/flash/prefetch.h"
#include "attention/plan/plan.h"
#include "attention/plan/schedule.h"
#include "attention/sources/kv.h"
#include "attention/visible/mask.h"
#include "attention/visible/visible.h"

#include <stdbool.h>

/* Tiles and segments, for fovea_attention_stats. */
typedef struct fv_block_count {
    int64_t tiles, visited, full, paired;
} fv_block_count;

/* One thread's work on one row block. */
typedef struct fv_block {
    const fv_schedule *schedule;
    const fovea_attention_plan *plan; /* the schedule's, as the next two */
    const fovea_attention_args *args;
    const fv_kv *kv;
    fv_mask mask;              /* one that selects keys */
    fovea_tensor bias;         /* that of the plan, or its additive mask; stride 0 where it repeats */
    int64_t number, following; /* of the row block, and of the one after it */
    fv_sequence sequence;
    int64_t kv_head;
    fv_row_place first; /* its first row */
    int64_t rows;
    fv_range range;      /* of keys that any of the rows sees */
    bool uniform;        /* does each of them see all of it? */
    bool one_head;       /* do all rows belong to one query head? */
    bool ascending;      /* and do both ends of their ranges move one way, those that see nothing first or last? */
    bool single_segment; /* do all keys that its rows see lie in one segment? */
    bool padding;        /* is none of them a query? Then nothing else of the block is ready */
    bool pairs;          /* may scores be those of pairs? Then pairs_q and exponents are those of the queries */
    bool floats;         /* are the queries in q? */
    bool normed;         /* is norm, if it is asked for, that of all queries? */
    fv_exponent_range exponents;
    bool value_pairs;    /* may values be multiplied as pairs? */
    bool decode, panels; /* few rows, or int8 (decode.h); their keys are panels */
    bool copy_values;    /* are the values read from a copy in v? */
    float norm;          /* the largest sum of squares of a scaled query; INFINITY: not asked for */
    /* in the thread's scratch, laid out by the plan; lse of split blocks: among the partials */
    float *q, *pairs_q, *p, *o, *max, *sum, *lse, *k, *v, *s, *lanes, *m, *l, *a, *b, *gathered, *key_rows, *chain,
        *line;
    fv_i8_word *integers; /* rows of queries, where keys are int8 */
    fv_tile_rows *tiles;
    int64_t tile_count;
    fv_range *ranges;
    fv_keybits *bits;
    fv_range *groups;
    fv_block_count count;
    fv_prefetch_queue queue; /* what is prefetched meanwhile */
} fv_block;

/* padding.c: is no row of a block a query? Writes out and lse of those of some rows that are none. */
bool fv_block_is_padding(const fv_block *block);
void fv_block_pad(const fv_block *block, int64_t first, int64_t rows);

/* queries.c: those of a block that is being opened, in the forms that it needs; later as floats in q, if they are not
 * there yet. */
void fv_queries_open(fv_block *block);
void fv_queries_ensure_floats(fv_block *block);

/* A block without rows, in one thread's scratch. */
void fv_block_init(fv_block *block, const fv_schedule *schedule, char *scratch);

/* Opens block `number`: ranges and scaled queries are ready after it. next: the block after it, or one that is none.
 */
void fv_block_open(fv_block *block, int64_t number, int64_t next);

/* All segments in order, merged as they come, then outputs and, where asked for, lse. */
void fv_block_run(fv_block *block);

/* Segments [begin, end) that the block sees. */
static inline fv_range fv_block_segments(const fv_block *x) {
    return (fv_range){x->range.begin / FV_SEGMENT, fv_ceil_div(x->range.end, FV_SEGMENT)};
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
