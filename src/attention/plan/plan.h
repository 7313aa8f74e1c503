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
#include "attention/sources/kv.h"
#include "context/context.h"
#include "kernels.h"
#include "tuning/tuning.h"

#include <stdbool.h>

/* From so many rows of a block on, values that lie badly are copied: below, the copy takes as long as it saves. */
enum { FV_COPY_ROWS = 192 };

/* From so many rows of a block on, bf16_tile goes over tiles: fewer leave most of them empty, and multiply-adds are as
 * fast. */
enum { FV_TILE_ROWS = 8 };

/* Words of a row of weights as pairs; not a power of two. */
enum { FV_P_WORDS = FV_SEGMENT / 2 + FV_LANES };

/* Typed pointers to the kernels of the tier. */
typedef struct fv_attention_kernels {
    fv_multiply_fn *score, *value, *value_skip;
    fv_scale_f32_fn *scale;
    fv_copy_f32_fn *copy;
    fv_pack_fn *pack;
    fv_softmax_f32_fn *softmax;
    fv_merge_f32_fn *merge;
    fv_accumulate_f32_fn *accumulate;
    fv_finish_f32_fn *finish;
    fv_mask_to_bits_u8_fn *mask_to_bits;
    fv_add_mask_f32_fn *add_mask;
    fv_softcap_f32_fn *softcap;
    fv_weights_f32_fn *weights;
    fv_weight_sums_f32_fn *weight_sums;
    fv_finite_f32_fn *finite;
    fv_widen_bf16_fn *widen_q, *widen_k, *widen_v; /* NULL: float32 */
    fv_narrow_bf16_fn *narrow_out;
    fv_pack_fn *pack_pairs;      /* of keys; it and pack_q NULL without plan->pairs */
    fv_pack_fn *pack_q;          /* NULL for float16, too */
    fv_multiply_fn *value_pairs; /* of p and values as pairs; NULL: they never are, and pack_v is, too */
    fv_pack_fn *pack_v;
    fv_unpack_fn *unpack_k; /* interleaved keys to floats; NULL: they are not bfloat16 */
    /* Of few rows with keys as they lie, in rows or interleaved: these a group a call, or all groups of a span,
     * FV_FEW_ROWS rows at most. NULL: there are more rows, or the other one does it. Of int8 keys, which score_groups
     * has, for any number of rows. */
    fv_multiply_fn *score_rows, *score_interleaved, *score_groups;
    fv_multiply_fn *value_few; /* likewise of values, and of int8 values for any number; NULL: value does it */
} fv_attention_kernels;

/* Are keys int8, so that scores are sums of integers? */
static inline bool fv_integers(const fovea_attention_desc *d) { return d->k_dtype == FOVEA_DTYPE_I8; }

/* Of so many rows at most, products with keys of a type take less time than memory. Figures: docs/measurements.md,
 * "multiply_rows.h". */
static inline int64_t fv_prefetched_rows(fovea_dtype keys) { return keys == FOVEA_DTYPE_F32 ? 4 : 2; }

/* What there is of the outputs of a tile's rows: nothing, running sums in o, or those of the only segment where the
 * caller's outputs will be. */
typedef enum fv_output { FV_OUTPUT_NONE, FV_OUTPUT_RUNNING, FV_OUTPUT_IN_PLACE } fv_output;

/* Rows of a block that make a tile, and how far they are. */
typedef struct fv_tile_rows {
    int64_t first, count; /* in the block */
    int64_t last;         /* the last segment that they go through */
    fv_output output;
} fv_tile_rows;

/* Where the parts of a thread's scratch begin, in bytes. */
typedef struct fv_attention_scratch {
    int64_t q, o;          /* [block_rows][head_dim] scaled queries; [block_rows][o_stride] outputs */
    int64_t pairs;         /* [block_rows][pair_words] queries as pairs */
    int64_t integers;      /* [block_rows] queries as integers (int8.h); nothing where keys are not int8 */
    int64_t max, sum, lse; /* [block_rows] running M and L, and the lse */
    int64_t tiles, ranges; /* [tiles of a block] fv_tile_rows; [block_rows] fv_range */
    int64_t k;             /* packed keys of one segment, panels of panel keys */
    int64_t v;             /* copied values of one segment, panels as wide as the tile of `value` */
    int64_t p;             /* [tile_rows][FV_P_WORDS] weights as pairs */
    int64_t gathered;      /* [FV_LANES][head_dim] keys of several spans or of 16 bits, before they are packed */
    int64_t key_rows;      /* [FV_LANES][head_dim] interleaved keys, in rows */
    int64_t chain;         /* [tile_rows][o_stride] values of all spans but the last */
    int64_t s, bits;       /* [tile_rows][s_stride] scores, then weights; [tile_rows] fv_keybits */
    int64_t lanes;         /* [tile_rows][FV_LANES] maxima, then sums, of softmax */
    int64_t groups;        /* [groups of edge_rows rows of a tile] fv_range */
    int64_t m, l, a, b;    /* [tile_rows] of the merge */
    int64_t line;          /* relative biases of a segment (relative.h) */
    int64_t bytes;
} fv_attention_scratch;

/* scale = q * c: q, +-2^e or 0, multiplies queries, c, from 1 to less than 2, what softmax reads (kernels.h). */
typedef struct fv_scale {
    float q, c;
} fv_scale;

struct fovea_attention_plan {
    const fovea_context *ctx;
    fovea_attention_desc desc; /* window limits made finite */
    fv_scale scale;
    int64_t group;            /* query heads of a key head */
    int64_t rows;             /* of a key head: group * q_len */
    int64_t partition_rows;   /* rows whose equal parts are blocks: of a key head, or of each of its heads */
    int64_t blocks;           /* of a key head */
    int64_t row_blocks;       /* batch * kv_heads * blocks; packed sequences may have fewer */
    int64_t segments;         /* of the longest sequence */
    int64_t visible_segments; /* of them, those that a block sees at most */

    fovea_attention_plan *prefix; /* owned and read by api/shared.c alone; NULL: calls share no prefixes */
    const fv_tuning_row *tuned;   /* the row that decided some of it, or NULL; the context's */
    bool chosen;                  /* the caller decided some of it */
    bool kernels_only;            /* the row's sizes would take too much memory */
    fv_attention_choice choice;   /* all fields decided */
    int64_t panel;                /* keys of a packed panel */
    int64_t edge_rows;            /* rows that share a range of keys where ranges differ */
    bool fetches_next;            /* is all of the next block prefetched? Where the second-level cache holds two */
    int64_t o_stride, s_stride;
    const fv_kernel *pairs; /* the product of scores of 16 bits, where it is exact; NULL: always that of floats */
    const fv_kernel
        *tiles; /* the product of bf16_tile over tiles, where there are any: of pairs, and of weights and values */
    int64_t pair_words; /* of a query or key as pairs; 0: they never are */
    fv_attention_kernels kernels;

    fv_attention_scratch scratch;
    int64_t tasks;    /* scratches: threads that can be busy at once */
    int64_t table;    /* where the schedule's table begins, in bytes */
    int64_t caller;   /* likewise what the maker of the plan asked for */
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

/* Caches by which the choice wants sizes reckoned, in bytes. */
int64_t fv_attention_l1(const fovea_attention_plan *plan);
int64_t fv_attention_l2(const fovea_attention_plan *plan);

/* Rows of which blocks are equal parts, of heads of so many tokens (heuristics.c). */
int64_t fv_attention_partition(const fovea_attention_plan *plan, int64_t tokens);

/* The kernel over tiles that a plan's arithmetic and context allow, or NULL. */
const fv_kernel *fv_attention_tiles(const fovea_attention_plan *plan);

/* A plan of a description that was read, in the arithmetic that it names. caller_bytes: of the workspace for its maker;
 * -1: more than memory. */
fovea_status fv_attention_plan_make(const fovea_context *ctx, const fovea_attention_desc *desc,
                                    const fv_attention_choice *choice, int64_t caller_bytes,
                                    fovea_attention_plan **plan);

/* Writes what was planned to stderr, and who decided it. */
void fv_attention_plan_debug(const fovea_attention_plan *plan);

/* Decides what wanted, which may be NULL, leaves open (heuristics.c). */
void fv_attention_heuristics(fovea_attention_plan *plan, const fv_attention_choice *wanted);

/* Are the partial results of split rows more memory than a row of a tuning file may cost? */
bool fv_attention_partials_large(const fovea_attention_plan *plan);

/* Lays out the workspace of a plan that has its choices; false if it would be larger than memory (layout.c). */
bool fv_attention_lay_out(fovea_attention_plan *plan, int64_t caller_bytes);

#endif
