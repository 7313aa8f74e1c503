/* The plan: an attention of one shape with its kernels, tiles and workspace layout. Made by plan.c, read by
 * the rest.
 *
 * The rows (queries of heads) that share a key head are numbered together: row = head_in_group * q_len + query. A row
 * block is up to block_rows of them, of one batch entry and key head. A block goes through its keys a segment
 * at a time: it packs the segment's keys once (a block of one tile: panel by panel, when it needs them), and then
 * computes in tiles of tile_rows rows, whose scores stay in cache.
 */
#ifndef FV_ATTENTION_PLAN_H
#define FV_ATTENTION_PLAN_H

#include "attention/attention.h"
#include "attention/sources/source.h"
#include "context/context.h"
#include "kernels.h"
#include "tuning/tuning.h"

#include <stdbool.h>

/* Where the outputs of a tile's rows are so far: nowhere, as running sums in o, or, with a single segment, in the
 * caller's tensor. */
typedef enum fv_output { FV_OUTPUT_NONE, FV_OUTPUT_RUNNING, FV_OUTPUT_IN_PLACE } fv_output;

/* Rows of a block that make a tile, and how far they are. */
typedef struct fv_tile_rows {
    int64_t first, count; /* in the block */
    int64_t last;         /* the last segment that they go through */
    fv_output output;
} fv_tile_rows;

/* A thread's scratch. */
typedef struct fv_scratch {
    float *queries[FV_QUERY_FORMS]; /* [block_rows] in each form that a source takes */
    float *o;                       /* [block_rows][o_stride] outputs */
    float *max, *sum, *lse;         /* [block_rows] running M and L, and the lse */
    fv_tile_rows *tiles;            /* [tiles of a block] */
    fv_range *ranges;               /* [block_rows] keys that each row sees */
    fv_range *groups;               /* [groups of edge_rows rows of a tile] likewise, of a segment */
    float *k, *v, *gathered;        /* of sources */
    float *p;                       /* [tile_rows][FV_WEIGHT_WORDS] weights as words */
    float *s;                       /* [tile_rows][s_stride] scores, then weights */
    fv_keybits *bits;               /* [tile_rows] */
    float *lanes;                   /* [tile_rows][FV_LANES] maxima, then sums, of softmax */
    float *m, *l, *a, *b;           /* [tile_rows] of the merge */
    float *chain;                   /* [tile_rows][o_stride] values of all spans but the last */
    float *line;                    /* relative biases of a segment (flash/relative.h) */
} fv_scratch;

struct fovea_attention_plan {
    const fovea_context *ctx;
    fovea_attention_desc desc; /* window limits made finite */
    int64_t group;             /* query heads of a key head */
    int64_t rows;              /* of a key head: group * q_len */
    int64_t partition_rows;    /* rows whose equal parts are blocks: of a key head, or of each of its heads */
    int64_t blocks;            /* of a key head */
    int64_t row_blocks;        /* batch * kv_heads * blocks; packed sequences may have fewer */
    int64_t segments;          /* of the longest sequence */
    int64_t visible_segments;  /* of them, those that a block sees at most */

    fovea_attention_plan *prefix; /* owned and read by api/shared.c alone; NULL: calls share no prefixes */
    const fv_tuning_row *tuned;   /* the row that decided some of it, or NULL; the context's */
    bool chosen;                  /* the caller decided some of it */
    bool usual_sizes;             /* the row's sizes would take too much memory: these are the default's */
    fv_attention_choice choice;   /* all fields decided */
    int64_t panel;                /* keys of a packed panel */
    int64_t edge_rows;            /* rows that share a range of keys where ranges differ */
    bool fetches_next;            /* is all of the next block prefetched? Where the second-level cache holds two */
    int64_t o_stride, s_stride;
    const fv_ops *ops; /* the context's */
    fv_sources sources;
    fv_softmax_f32_fn *softmax;
    const fv_kernel *tiles; /* the product over tiles of bf16_tile, overlapped with softmax; or NULL */

    int64_t scratch;  /* bytes of a thread's */
    int64_t tasks;    /* scratches: threads that can be busy at once */
    int64_t table;    /* where the schedule's table begins, in bytes */
    int64_t caller;   /* likewise the part reserved for the plan's maker */
    int64_t partials; /* likewise the partial results of split rows: */
    int64_t partial_floats;
    int64_t bytes; /* of workspace, with room to align it */

    int64_t bucket_starts[]; /* of T5's buckets (relative.h) */
};

/* Results of one segment of the rows of a block whose keys are split: o, m, l as kernels.h defines them. When all are
 * merged, m of the first one has the lse of the rows. */
typedef struct fv_partial {
    float *o, *m, *l;
} fv_partial;

/* Cache sizes in bytes that block sizes are derived from, scaled as the choice says. */
int64_t fv_attention_l1(const fovea_attention_plan *plan);
int64_t fv_attention_l2(const fovea_attention_plan *plan);

/* Rows that are divided evenly into blocks, with `tokens` tokens a head (heuristics.c). */
int64_t fv_attention_partition(const fovea_attention_plan *plan, int64_t tokens);

/* A plan of a description that was read, in the arithmetic that it names. caller_bytes: of the workspace for its maker;
 * -1: more than memory. */
fovea_status fv_attention_plan_make(const fovea_context *ctx, const fovea_attention_desc *desc,
                                    const fv_attention_choice *choice, int64_t caller_bytes,
                                    fovea_attention_plan **plan);

/* Writes what was planned to stderr, and who decided it. */
void fv_attention_plan_debug(const fovea_attention_plan *plan);

/* Decides the fields that `requested`, which may be NULL, leaves open (heuristics.c). */
void fv_attention_heuristics(fovea_attention_plan *plan, const fv_attention_choice *requested);

/* A thread's scratch at an address; returns its bytes, -1: more than memory (layout.c). */
int64_t fv_scratch_at(const fovea_attention_plan *plan, void *memory, fv_scratch *scratch);

/* Do sizes of the choice take more memory than a row of a tuning file may cost (layout.c)? */
bool fv_attention_sizes_large(const fovea_attention_plan *plan);

/* Lays out the workspace of a plan that has its choices; false if it would be larger than memory (layout.c). */
bool fv_attention_lay_out(fovea_attention_plan *plan, int64_t caller_bytes);

#endif
