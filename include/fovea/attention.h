/* Fovea: attention, out = softmax(scale * q k^T + bias) v: describe, plan, execute. Part of fovea.h. */
#ifndef FOVEA_ATTENTION_H
#define FOVEA_ATTENTION_H

#include "context.h"
#include "mask.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which keys a query may see by its position. Positions count from a sequence's first query and its first key, wherever
 * these are in the tensors, so that padding on either side changes no bit. Query i stands at key position i + offset:
 *   NONE          no causal limit; offset 0 (or q_offsets[b], which then only places the window)
 *   TOP_LEFT      key j <= i                         offset 0 (PyTorch is_causal)
 *   BOTTOM_RIGHT  key j <= i + kv_len - q_len        offset kv_len - q_len of that sequence (FlashAttention >= 2.1)
 *   OFFSET        key j <= i + q_offsets[b]          the caller's offset (a chunk of a prompt: the tokens before it) */
typedef enum fovea_causal {
    FOVEA_CAUSAL_NONE = 0,
    FOVEA_CAUSAL_TOP_LEFT = 1,
    FOVEA_CAUSAL_BOTTOM_RIGHT = 2,
    FOVEA_CAUSAL_OFFSET = 3
} fovea_causal;

/* A bias by positions, of query and key alone, computed from a small table or slopes that are never expanded. i and j count
 * from the sequence's first query and first key, d = i + offset - j, offset as for fovea_causal: the key lies d before the
 * query. The bias t is added to the score after args.bias: s = s + t, rounded; t of exactly -inf masks the key.
 *
 *   ALIBI      t = -(slope * |d|), |d| rounded to float32 (exact to 2^24), the product rounded. Each head has one entry,
 *              its slope. As FlashAttention, whose offset is that of BOTTOM_RIGHT. ggml and the paper add slope * j or
 *              slope * (j - i) under a causal mask: equal but for rounding, as softmax ignores what all keys share.
 *   TOEPLITZ   t = table[R + min(max(d, -R), R)] of 2R + 1 entries: the first is that of keys R or more after the query.
 *   T5         t = table[bucket] of relative_buckets entries. n = |d|; B = relative_buckets, halved (rounded down) if
 *              relative_bidirectional; D = relative_max_distance; E = B / 2, rounded down.
 *                one direction:  n = 0 where d < 0 (keys after the query)
 *                bidirectional:  B is added to the bucket where d < 0
 *                bucket = n                                                                   where n < E
 *                         min(E + floor(log(n / E) / log(D / E) * (B - E)), B - 1)             else
 *              the floor in exact arithmetic, by integers: the largest x with n^(B-E) E^x >= D^x E^(B-E). (In floats, as
 *              transformers computes it, a distance on the edge of a bucket may fall to either side of it.)
 *   WINDOW_2D  tokens are the cells of a window of relative_height x relative_width, row by row, as in Swin. With
 *              i + offset = yi * width + xi and j = yj * width + xj:
 *              t = table[(yi - yj + height - 1) * (2 width - 1) + xi - xj + width - 1]
 *              of (2 height - 1) (2 width - 1) entries. All keys and queries must lie in the window. */
typedef enum fovea_relative {
    FOVEA_RELATIVE_NONE = 0,
    FOVEA_RELATIVE_ALIBI = 1,
    FOVEA_RELATIVE_TOEPLITZ = 2,
    FOVEA_RELATIVE_T5 = 3,
    FOVEA_RELATIVE_WINDOW_2D = 4
} fovea_relative;

typedef struct fovea_attention_desc {
    size_t struct_size;
    fovea_dtype dtype;    /* default and only choice: FOVEA_DTYPE_F32 */
    int has_scale;        /* nonzero: scale is used; default 0: 1/sqrt(head_dim) */
    int64_t batch;        /* >= 0, default 1. Without sequences, heads or queries a call does nothing */
    int64_t q_heads;      /* >= 0, a multiple of kv_heads; query head h reads key head h / (q_heads / kv_heads) */
    int64_t kv_heads;     /* >= 0 */
    int64_t q_len;        /* >= 0 queries of a sequence (the longest, where q_lens is given) */
    int64_t kv_len;       /* >= 0 keys of a sequence (the longest, where kv_lens is given) */
    int64_t head_dim;     /* >= 1 channels of q and k */
    int64_t value_dim;    /* >= 1 channels of v and out */
    double scale;         /* where has_scale: any finite number, 0 too; rounded to float32 once */
    fovea_causal causal;  /* default FOVEA_CAUSAL_NONE */
    fovea_mask_kind mask; /* default FOVEA_MASK_NONE */
    int64_t window_left;  /* keys before the query's position that it sees, inclusive; default -1: no limit */
    int64_t window_right; /* keys after it; default -1: no limit (but causal still limits) */
    int has_bias;         /* nonzero: args.bias is added to the scores; goes with every mask but the additive one */
    int packed;           /* nonzero: sequences share one token axis, see below; default 0 */
    int64_t mask_block_rows, mask_block_keys; /* FOVEA_MASK_BLOCKS: queries and keys of a block, >= 1 */
    fovea_relative relative;                  /* default FOVEA_RELATIVE_NONE */
    int relative_bidirectional;    /* T5: nonzero: keys before and after the query have buckets of their own */
    int64_t relative_buckets;      /* T5: from 2, bidirectional from 4, to 256 */
    int64_t relative_max_distance; /* T5: D, from E + 1 to 2^30 */
    int64_t relative_height;       /* WINDOW_2D: each from 1 to 2^20 */
    int64_t relative_width;
} fovea_attention_desc;

/* Packed sequences. Tensors have a batch of 1 and any number of tokens, q and the outputs as many, k and v as many:
 * q [1, q_heads, q_tokens, head_dim], k [1, kv_heads, kv_tokens, head_dim], mask and weights [1, q_heads, q_tokens,
 * kv_tokens]. Sequence b of desc.batch has the queries [q_cu_seqlens[b], q_cu_seqlens[b + 1]) and the keys
 * [kv_cu_seqlens[b], kv_cu_seqlens[b + 1]) of them, at most desc.q_len and desc.kv_len. Both are required, start at 0 or
 * more, never fall, and end at or before the last token; q_lens and kv_lens may leave out the end of sequences. Work and
 * workspace are those of the tokens that there are. Tokens that belong to no sequence are neither read nor, in out, lse and
 * weights, written. */

/* Sets struct_size and the defaults; sizes without one are 0 and must be set. */
#define fovea_attention_desc_init(desc) fovea_attention_desc_init_size((desc), sizeof(fovea_attention_desc))
FOVEA_API void fovea_attention_desc_init_size(fovea_attention_desc *desc, size_t size);

/* What an execution went through. A tile is some rows of a key head (fovea_attention_plan_describe() says how many at
 * most) and a segment of 256 keys. Tiles of which no row sees a key cost nothing; those of which every row sees every key
 * cost no mask. */
typedef struct fovea_attention_stats {
    size_t struct_size;
    int64_t visited_tiles, skipped_tiles; /* together: all rows, against all segments of their sequence */
    int64_t full_tiles;                   /* visited ones of which every row sees every key */
} fovea_attention_stats;

/* Sets struct_size, and zeros. */
#define fovea_attention_stats_init(stats) fovea_attention_stats_init_size((stats), sizeof(fovea_attention_stats))
FOVEA_API void fovea_attention_stats_init_size(fovea_attention_stats *stats, size_t size);

/* M, L and O of each row: fovea/state.h. */
typedef struct fovea_attention_state fovea_attention_state;

typedef struct fovea_attention_args {
    size_t struct_size;
    fovea_tensor q;         /* [batch, q_heads, q_len, head_dim] */
    fovea_tensor k;         /* [batch, kv_heads, kv_len, head_dim] */
    fovea_tensor v;         /* [batch, kv_heads, kv_len, value_dim] */
    fovea_tensor out;       /* [batch, q_heads, q_len, value_dim], written whole; with a state it may be absent */
    fovea_tensor mask;      /* if desc.mask, as its kind says (mask.h); a stride of 0 or a size of 1 repeats */
    const int64_t *q_lens;  /* [batch] or NULL: sequence b has q_lens[b] <= q_len queries; rows past it are not read */
    const int64_t *kv_lens; /* [batch] or NULL: likewise its keys and values */
    const int64_t *q_offsets; /* [batch], from -2^60 to 2^60, required by FOVEA_CAUSAL_OFFSET, allowed with NONE, else
                                 NULL */
    fovea_tensor lse;         /* optional [batch, q_heads, q_len, 1]: log(sum(exp(score))), natural logarithm */
    fovea_tensor weights;     /* optional [batch, q_heads, q_len, kv_len]: exp(score - lse), +0 where masked; costs the
                                 scores a second time */
    const int64_t
        *q_starts; /* [batch] or NULL (0): the queries of sequence b are [q_starts[b], q_starts[b] + q_lens[b])
                                 of the q_len tokens, without q_lens all from q_starts[b] on */
    const int64_t *kv_starts; /* [batch] or NULL: likewise its keys and values */
    fovea_tensor
        bias; /* FOVEA_DTYPE_F32 [batch, q_heads, q_len, kv_len], if desc.has_bias; a stride of 0 or a size of 1
                          repeats. s = s + bias, rounded; exactly -inf masks the key, as false in a boolean mask does */
    const int64_t *q_cu_seqlens;  /* [batch + 1], if desc.packed, else NULL: where sequences begin, and the last ends */
    const int64_t *kv_cu_seqlens; /* likewise, keys and values */
    const int64_t *mask_blocks;   /* FOVEA_MASK_BLOCKS: [mask_block_count] blocks of keys, list after list */
    int64_t mask_block_count;
    const fovea_mask *prepared;   /* FOVEA_MASK_PREPARED: of these sizes; batch or heads may be 1 */
    fovea_attention_stats *stats; /* optional; written by the call, which nobody else may share */
    fovea_attention_state *state; /* NULL, or where results go on from piece to piece of the keys (state.h) */
    int64_t first_key;            /* with a state: position of this piece's first key, a multiple of 256; else 0 */
    fovea_tensor relative; /* FOVEA_DTYPE_F32 [batch, q_heads, 1, entries], if desc.relative; batch and q_heads may be 1
                              or have a stride of 0, entries are contiguous */
} fovea_attention_args;

/* Sets struct_size and leaves everything else absent. */
#define fovea_attention_args_init(args) fovea_attention_args_init_size((args), sizeof(fovea_attention_args))
FOVEA_API void fovea_attention_args_init_size(fovea_attention_args *args, size_t size);

/* Kernels and tiles chosen for one shape. Immutable: any number of threads may execute one at once. */
typedef struct fovea_attention_plan fovea_attention_plan;

/* Checks desc and chooses. *plan is NULL after an error. ctx must outlive the plan. Thread-safe.
 *
 * Decoding: make one plan, of q_len 1 and of the longest kv_len for which the buffers of k and v have room, and pass in
 * kv_lens how many keys are there. Time and memory traffic follow kv_lens, not kv_len, so no plan is needed for each
 * token. With FOVEA_CAUSAL_BOTTOM_RIGHT the last query sees the last of these keys. examples/decode.c does it with a
 * whole layer. */
FOVEA_API fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                                   fovea_attention_plan **plan);

/* Frees a plan that no thread executes any more. NULL is allowed. Thread-safe on different plans. */
FOVEA_API void fovea_attention_plan_destroy(fovea_attention_plan *plan);

/* Bytes of workspace that fovea_attention_execute() needs: O(threads x tile + partial sums of rows that are split),
 * never O(q_len x kv_len). 0 for a NULL plan. Thread-safe. */
FOVEA_API size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan);

/* Writes a few lines of text about the plan (tier, kernel rows, blocks, threads, whether tuned) into text[size], always
 * terminated if size > 0, and returns the length of the whole text without its terminator, as snprintf does.
 * Thread-safe. */
FOVEA_API size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size);

/* out = softmax(scale * q k^T + mask) v, row by row.
 *   - A row that may see no key (or whose scores are all -inf) gives out +0, lse -inf, weights +0; so do the rows before
 *     q_starts[b] and from q_starts[b] + q_lens[b] on.
 *   - Columns of mask and weights are those of the tensors: the first key of sequence b has column kv_starts[b].
 *   - Masked keys and padding are skipped, not multiplied by zero: their bytes in k, v and mask may be NaN or
 *     uninitialised and no output bit changes. NaN in an attended q or k, or a score of +inf, gives a row of NaN;
 *     NaN in an attended v gives NaN in that channel. Output NaN is always 0x7fc00000, output zero always +0.
 *   - workspace: workspace_size bytes at any alignment, at least fovea_attention_plan_workspace_size(); not shared with
 *     a concurrent call; its content before and after means nothing. NULL (and 0): allocated for this call and freed,
 *     which may fail with FOVEA_ERROR_OUT_OF_MEMORY, outputs untouched. With a workspace, nothing is allocated.
 *   - Outputs must not overlap inputs (lengths, starts and offsets among them), each other, or the workspace. What
 *     counts is the memory from a tensor's first to its last element: an output in the gaps between an input's rows is
 *     refused, too.
 *   - Floating-point exceptions neither trap nor leave a flag, here and in all functions of the library: where the
 *     caller let some trap, they trap again afterwards.
 *   - Uses the caller's rounding mode and flush-to-zero setting in all its threads. Called from within a parallel
 *     region or a task of its own parallel_for, it runs on the calling thread alone; so it does, without a parallel_for,
 *     in the forked child of a process that had more than one thread.
 * Thread-safe for one plan and for many. */
FOVEA_API fovea_status fovea_attention_execute(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                               void *workspace, size_t workspace_size);

/* The ten-second start: contiguous [batch, heads, tokens, channels] arrays, scale 1/sqrt(head_dim), a default context
 * made at the first call (all defaults; the environment is read then) and kept for the life of the process, with the
 * plans and workspaces of the last few shapes. Same bits and, from the second call of a shape on, the speed of the
 * planned form. Thread-safe. causal: any but FOVEA_CAUSAL_OFFSET. */
FOVEA_API fovea_status fovea_sdpa_f32(const float *q, const float *k, const float *v, float *out, int64_t batch,
                                      int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                      int64_t head_dim, int64_t value_dim, fovea_causal causal);

#ifdef __cplusplus
}
#endif
#endif
