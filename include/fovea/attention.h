/* Fovea: attention, out = softmax(scale * q k^T + bias) v: describe, plan, execute. Part of fovea.h. */
#ifndef FOVEA_ATTENTION_H
#define FOVEA_ATTENTION_H

#include "cache.h"
#include "context.h"
#include "mask.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which keys a query may see, by position. Positions count from a sequence's first query and first key, wherever these
 * are in the tensors. So padding on either side changes no bit. Query i stands at key position i + offset:
 *   NONE          no causal limit                    offset 0, or q_offsets[b], which then moves only the window
 *   TOP_LEFT      key j <= i                         offset 0 (PyTorch is_causal)
 *   BOTTOM_RIGHT  key j <= i + kv_len - q_len        offset kv_len - q_len of that sequence (FlashAttention >= 2.1)
 *   OFFSET        key j <= i + q_offsets[b]          the caller's offset (a chunk of a prompt: the tokens before it) */
typedef enum fovea_causal {
    FOVEA_CAUSAL_NONE = 0,
    FOVEA_CAUSAL_TOP_LEFT = 1,
    FOVEA_CAUSAL_BOTTOM_RIGHT = 2,
    FOVEA_CAUSAL_OFFSET = 3
} fovea_causal;

/* A bias that depends only on the positions of query and key. It is computed from slopes or a small table, which are
 * never expanded. i and j count from the sequence's first query and first key. d = i + offset - j, with the offset of
 * fovea_causal: the key lies d before the query. The bias t is added to the score after args.bias: s = s + t, rounded.
 * A t of exactly -inf masks the key.
 *
 *   ALIBI      t = -(slope * |d|), |d| rounded to float32 (exact to 2^24), the product rounded. Each head has one
 *              entry, its slope. FlashAttention does the same, with the offset of BOTTOM_RIGHT. ggml and the paper add
 *              slope * j or slope * (j - i) under a causal mask. Results differ only by rounding, because softmax
 *              ignores a term that all keys share.
 *   TOEPLITZ   t = table[R + min(max(d, -R), R)] of 2R + 1 entries. The first one is for keys R or more after the
 *              query.
 *   T5         t = table[bucket] of relative_buckets entries. n = |d|; B = relative_buckets, halved (rounded down) if
 *              relative_bidirectional; D = relative_max_distance; E = B / 2, rounded down.
 *                one direction:  n = 0 where d < 0 (keys after the query)
 *                bidirectional:  B is added to the bucket where d < 0
 *                bucket = n                                                                   where n < E
 *                         min(E + floor(log(n / E) / log(D / E) * (B - E)), B - 1)             else
 *              The floor is exact, computed with integers: the largest x with n^(B-E) E^x >= D^x E^(B-E).
 *              (transformers uses floats, so there a distance at the edge of a bucket may fall to either side of it.)
 *   WINDOW_2D  Tokens are the cells of a window of relative_height x relative_width, row by row, as in Swin. With
 *              i + offset = yi * width + xi and j = yj * width + xj:
 *              t = table[(yi - yj + height - 1) * (2 width - 1) + xi - xj + width - 1]
 *              of (2 height - 1) (2 width - 1) entries. All keys and queries must lie in the window
 *              (FOVEA_ERROR_SHAPE). */
typedef enum fovea_relative {
    FOVEA_RELATIVE_NONE = 0,
    FOVEA_RELATIVE_ALIBI = 1,
    FOVEA_RELATIVE_TOEPLITZ = 2,
    FOVEA_RELATIVE_T5 = 3,
    FOVEA_RELATIVE_WINDOW_2D = 4
} fovea_relative;

/* fields.inc lists the fields of this struct and of fovea_attention_args for programs that go through all of them. */
typedef struct fovea_attention_desc {
    size_t struct_size;

    /* Shape. Without sequences, heads or queries a call does nothing, and data may be NULL. */
    int64_t batch;     /* sequences, >= 0; default 1 */
    int64_t q_heads;   /* >= 0, a multiple of kv_heads: query head h reads key head h / (q_heads / kv_heads) */
    int64_t kv_heads;  /* >= 0 */
    int64_t q_len;     /* >= 0 queries in a sequence (in the longest, if args.q_lens is given) */
    int64_t kv_len;    /* >= 0 keys in a sequence (in the longest, if args.kv_lens is given) */
    int64_t head_dim;  /* channels of q and k, from 1 to 65,536 */
    int64_t value_dim; /* channels of v and out, from 1 to 65,536 */

    /* Element types: FOVEA_DTYPE_F32, _BF16 or _F16. Keys and values in pages may also be _I8 or _I4. */
    fovea_dtype dtype;                       /* of q; default FOVEA_DTYPE_F32 */
    fovea_dtype k_dtype, v_dtype, out_dtype; /* default 0: dtype */
    /* Default FOVEA_ARITHMETIC_EXACT. BF16 and BF16_TILE need q, k and v of bfloat16. FASTEST takes EXACT for other
     * types. */
    fovea_arithmetic arithmetic;

    /* Scores, in the order of computation: scale, softcap, args.bias, relative bias; then sinks join the sum. */
    double scale;   /* if has_scale: any finite number, even 0; rounded to float32 once */
    double softcap; /* > 0: s = softcap * tanh(s / softcap) (Gemma 2); from 2^-126 to 2^126, rounded to float32 once;
                       tanh is at most 2^-24 off, and never beyond 1. Default 0: none */
    int has_scale;  /* nonzero: scale is used; default 0: 1/sqrt(head_dim) */
    int has_bias;   /* nonzero: args.bias is added to the scores; not with FOVEA_MASK_ADDITIVE; default 0 */
    int has_sinks;  /* nonzero: args.sinks joins the denominator of each row; default 0 */
    fovea_relative relative;       /* default FOVEA_RELATIVE_NONE */
    int relative_bidirectional;    /* T5: nonzero: keys before and after the query have buckets of their own */
    int64_t relative_buckets;      /* T5: from 2, bidirectional from 4, to 256 */
    int64_t relative_max_distance; /* T5: D, from E + 1 to 2^30 */
    int64_t relative_height;       /* WINDOW_2D: from 1 to 2^20 */
    int64_t relative_width;        /* WINDOW_2D: from 1 to 2^20 */

    /* Which keys a query sees: those that all of these allow. mask.h has all ways, in a table. */
    fovea_causal causal;                      /* default FOVEA_CAUSAL_NONE */
    fovea_mask_kind mask;                     /* default FOVEA_MASK_NONE */
    int64_t window_left;                      /* how many keys before its position a query sees; default -1: no limit */
    int64_t window_right;                     /* how many after it; default -1: no limit (causal still limits) */
    int64_t mask_block_rows, mask_block_keys; /* FOVEA_MASK_BLOCKS: queries and keys of a block, >= 1 */

    /* How sequences lie in memory, see below. */
    int packed;        /* nonzero: sequences share one token axis; default 0 */
    int64_t page_keys; /* > 0: keys are in pages of this size, of args.cache (FOVEA_KV_PAGE_KEYS) or args.pages;
                          default 0: in args.k and args.v */
} fovea_attention_desc;
FOVEA_DEFINE_INIT(fovea_attention_desc_init, fovea_attention_desc, FOVEA_STRUCT_ATTENTION_DESC)

/* Element types.
 *   - 16 bits: in the default arithmetic results are, bit for bit, those of float32 on the same numbers. out is rounded
 *     once at the end, as fovea_convert() rounds.
 *   - lse, weights, biases and sinks are always float32. Weights are exp(score - lse) in every arithmetic, not rounded
 *     to bfloat16.
 *   - FOVEA_DTYPE_I8, _I4: keys or values in pages, of as many keys as cache.h says. They always have the arithmetic
 *     that it defines. BF16 and BF16_TILE then apply to the other side only, and FASTEST takes EXACT.
 *   - A call in BF16 or BF16_TILE rounds to nearest and keeps subnormals, whatever the caller's mode. */

/* Packed sequences (desc.packed).
 *   - Tensors have a batch of 1 and any number of tokens: q [1, q_heads, q_tokens, head_dim], k [1, kv_heads,
 *     kv_tokens, head_dim], mask and weights [1, q_heads, q_tokens, kv_tokens]. v has as many tokens as k, outputs have
 *     as many as q.
 *   - Sequence b of desc.batch has the queries [q_cu_seqlens[b], q_cu_seqlens[b + 1]) and the keys [kv_cu_seqlens[b],
 *     kv_cu_seqlens[b + 1]), at most desc.q_len and desc.kv_len of them.
 *   - Both arrays are required. They start at 0 or more, never decrease, and end at or before the last token.
 *   - q_lens and kv_lens are optional, and shorten sequences at their ends.
 *   - Time and workspace depend on the tokens that exist, not on desc.q_len. Tokens outside all sequences are neither
 *     read nor written. */

/* Keys in pages (desc.page_keys).
 *   - k, v, kv_starts and kv_cu_seqlens are absent. Queries may be packed.
 *   - With args.cache, sequence b of the batch has the keys of cache_sequences[b] in layer cache_layer, or the first
 *     kv_lens[b] of them. With args.pages it has kv_lens[b] keys. No sequence may have more than desc.kv_len.
 *   - k_dtype and v_dtype must be those of the cache.
 *   - Columns of mask, bias, weights and scores are positions. There are kv_len of them, even if queries are packed.
 *   - Evicted keys are skipped like masked ones. Eviction can be combined with biases, causality and windows, but not
 *     with a mask that selects keys.
 *   - Pages that several sequences of a call share, from the first page on, are read once for all of them. This needs
 *     page_keys that are a multiple of 256, at most 16 queries a sequence, no mask, bias, relative bias or window, any
 *     causality but TOP_LEFT, and no outputs but out, lse and stats. The bits are the same. Forks share pages, and so
 *     do equal entries of tables. Nothing need be declared.
 *   - Errors: FOVEA_ERROR_ARGUMENT if a sequence is not in the cache, a page is not in the pool, or a query sees keys
 *     that were freed behind a layer's window. FOVEA_ERROR_SHAPE if a sequence is longer than kv_len or shorter than
 *     kv_lens[b]. FOVEA_ERROR_UNSUPPORTED with evicted keys and such a mask, and for scores before the mask if keys
 *     were evicted or freed. */

/* How much an execution could skip. A tile is a block of rows of a key head (fovea_attention_plan_describe() gives its
 * size) times a segment of 256 keys. A tile in which no row sees a key costs nothing. A tile in which every row sees
 * every key needs no mask. */
typedef struct fovea_attention_stats {
    size_t struct_size;
    int64_t visited_tiles, skipped_tiles; /* their sum: all rows times all segments of their sequence */
    int64_t full_tiles;                   /* visited tiles in which every row sees every key */
    /* Visited tiles of bfloat16, on Arm also of float16, whose scores took the fast path of this CPU, twice as fast
     * (docs/arithmetics.md). In a plan that has one, the others fell back: an operand was too small to keep bits equal,
     * the caller's mode does not round to nearest, or page_keys is not a multiple of 256. Tiles of few rows are not
     * counted. */
    int64_t fast_tiles;
    int64_t shared_prefixes; /* groups of sequences whose common pages were read once (page_keys) */
    int64_t split_blocks;    /* blocks of rows whose keys were split among otherwise idle threads */
} fovea_attention_stats;
FOVEA_DEFINE_INIT(fovea_attention_stats_init, fovea_attention_stats, FOVEA_STRUCT_ATTENTION_STATS)

/* The running softmax of each row: fovea/state.h. */
typedef struct fovea_attention_state fovea_attention_state;

/* Chosen scores, and statistics of the weights: fovea/outputs.h. */
typedef struct fovea_attention_scores fovea_attention_scores;
typedef struct fovea_attention_summary fovea_attention_summary;

typedef struct fovea_attention_args {
    size_t struct_size;

    /* Operands. Every element of out is written, except tokens outside all packed sequences. */
    fovea_tensor q;   /* [batch, q_heads, q_len, head_dim] */
    fovea_tensor k;   /* [batch, kv_heads, kv_len, head_dim] */
    fovea_tensor v;   /* [batch, kv_heads, kv_len, value_dim] */
    fovea_tensor out; /* [batch, q_heads, q_len, value_dim]; optional if state is given */
    fovea_tensor lse; /* optional float32 [batch, q_heads, q_len, 1]: log(sum(exp(score))), natural logarithm */

    /* Sequences: where they lie, and how long they are. Of tensors that are not packed, sequence b has the queries
     * [q_starts[b], q_starts[b] + q_lens[b]) of the q_len tokens, and keys likewise; other rows are not read. */
    const int64_t *q_lens;    /* [batch] or NULL: to the end of the tokens */
    const int64_t *kv_lens;   /* [batch] or NULL, likewise */
    const int64_t *q_starts;  /* [batch] or NULL: 0 */
    const int64_t *kv_starts; /* [batch] or NULL: 0 */
    const int64_t *q_offsets; /* [batch], from -2^60 to 2^60: for FOVEA_CAUSAL_OFFSET, optional with NONE, else NULL */
    const int64_t *q_cu_seqlens;  /* [batch + 1], if desc.packed: where each sequence begins, and the last one ends */
    const int64_t *kv_cu_seqlens; /* [batch + 1], likewise for keys */

    /* Mask, as desc.mask says (mask.h). An axis of stride 0 or size 1 is repeated. */
    fovea_tensor mask;
    const fovea_mask *prepared; /* FOVEA_MASK_PREPARED: of these sizes; its batch or heads may be 1 */
    const int64_t *mask_blocks; /* FOVEA_MASK_BLOCKS: [mask_block_count] blocks of keys, list after list */
    int64_t mask_block_count;
    const void *key_list; /* reserved for lists of keys: NULL */

    /* Terms of the scores. Axes of bias of stride 0 or size 1 are repeated. A bias of exactly -inf masks the key, like
     * false in a boolean mask. */
    fovea_tensor bias;     /* if desc.has_bias: float32 [batch, q_heads, q_len, kv_len]; s = s + bias, rounded */
    fovea_tensor relative; /* if desc.relative: float32 [batch, q_heads, 1, entries], entries contiguous; batch and
                              q_heads may be 1 or have a stride of 0 */
    /* [q_heads], if desc.has_sinks: a logit for each head, as if one more key had it as its score and zeros as its
     * value. lse and weights count it. A row without keys gives out +0 and lse = the sink. -inf is no sink; +inf and
     * NaN give NaN in out and lse of each row that has a query, keys or not. */
    const float *sinks;

    /* Keys and values in pages, if desc.page_keys: cache or pages. k and v are then absent. */
    fovea_kv_cache *cache;
    int64_t cache_layer;            /* layer of the cache */
    const int64_t *cache_sequences; /* [batch] sequences of the cache; one may come several times */
    const fovea_kv_pages *pages;    /* your own pages (cache.h) */

    /* Keys piece by piece (state.h). */
    fovea_attention_state *state; /* or NULL; carries results from one piece of the keys to the next */
    int64_t first_key;            /* with a state: position of this piece's first key, a multiple of 256; else 0 */

    /* Other outputs, all optional. */
    /* [batch, q_heads, q_len, kv_len]: exp(score - lse), +0 where masked. Computes the scores a second time. For a part
     * of the matrix use scores; for statistics of it, summary. */
    fovea_tensor weights;
    const fovea_attention_scores *scores;   /* scores of chosen heads, queries and keys (outputs.h) */
    const fovea_attention_summary *summary; /* statistics of the weights (outputs.h) */
    fovea_attention_stats *stats;           /* overlaps nothing, and is not shared with a concurrent call */
} fovea_attention_args;
FOVEA_DEFINE_INIT(fovea_attention_args_init, fovea_attention_args, FOVEA_STRUCT_ATTENTION_ARGS)

/* Kernels and tiles chosen for one shape. Immutable: any number of threads may execute one at once. */
typedef struct fovea_attention_plan fovea_attention_plan;

/* Checks desc and chooses kernels and tiles. ctx must outlive the plan. Thread-safe. Errors:
 *   FOVEA_ERROR_SHAPE        a size is negative, or 0 where it may not be; q_heads is not a multiple of kv_heads; int8
 *                            keys, or 4-bit keys or values, of more than 1024 channels; page_keys that they do not have
 *   FOVEA_ERROR_ARGUMENT     an unknown enum value; a scale that is not a finite float; softcap, window_left,
 *                            window_right or a size of T5's buckets out of range; has_bias with FOVEA_MASK_ADDITIVE
 *   FOVEA_ERROR_DTYPE        a type that attention does not take there
 *   FOVEA_ERROR_UNSUPPORTED  an arithmetic that does not take these types
 *   FOVEA_ERROR_OVERFLOW     a size is over its limit (head_dim, value_dim: 65,536), or a tensor is larger than memory
 *   FOVEA_ERROR_VERSION, _OUT_OF_MEMORY
 *
 * To decode, make one plan with q_len = 1 and kv_len = buffer capacity. For each token, pass the number of keys so far
 * in kv_lens: time and memory traffic depend on kv_lens, not on kv_len. With FOVEA_CAUSAL_BOTTOM_RIGHT the last query
 * sees the last of these keys. examples/decode.c decodes with a whole layer. */
FOVEA_API fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                                   fovea_attention_plan **plan);

/* Frees a plan. No thread may be executing it. Thread-safe on different plans. */
FOVEA_API void fovea_attention_plan_destroy(fovea_attention_plan *plan);

/* Bytes of workspace that fovea_attention_execute() needs: O(threads x tile + partial results of split rows), never
 * O(q_len x kv_len). Thread-safe. */
FOVEA_API size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan);

/* The arithmetic of a plan: desc.arithmetic, or what FOVEA_ARITHMETIC_FASTEST took. EXACT for NULL. Thread-safe. */
FOVEA_API fovea_arithmetic fovea_attention_plan_arithmetic(const fovea_attention_plan *plan);

/* Writes a few lines about the plan into text[size]: tier, kernels, blocks, threads, whether tuned. Like snprintf, it
 * terminates the text if size > 0, and returns the length of the whole text without the terminator. text NULL: returns
 * the length alone. Thread-safe. */
FOVEA_API size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size);

/* out = softmax(s) v, row by row, over the keys that a query sees. s is scale * q k^T, capped (desc.softcap), plus
 * args.bias or an additive mask, plus the relative bias.
 *   - Empty rows: a row that sees no key, or whose scores are all -inf, gives out +0, lse -inf (with sinks, its sink)
 *     and weights +0. So do rows outside [q_starts[b], q_starts[b] + q_lens[b]), whatever the sink or a state holds: a
 *     sink of +inf or NaN reaches only their lse, which is NaN.
 *   - Columns: those of mask, bias and weights are columns of the tensors. The first key of sequence b has column
 *     kv_starts[b].
 *   - Masked keys and padding are skipped, not multiplied by zero. Their bytes in k, v and mask may be NaN or
 *     uninitialized, and no output bit changes. The same holds for elements of biases and tables that no attended pair
 *     uses.
 *   - NaN in an attended q or k, or a score of +inf, gives a row of NaN. NaN in an attended v gives NaN in that
 *     channel. In float32, output NaN is always 0x7fc00000 and output zero always +0. Outputs of 16 bits are these,
 *     rounded: a negative number too small for the type becomes -0.
 *   - workspace: at least fovea_attention_plan_workspace_size() bytes, at any alignment. It is scratch, and must not be
 *     shared with a concurrent call. With a workspace nothing is allocated. With NULL and size 0, memory is allocated
 *     for this call.
 *   - Outputs must not overlap inputs (including lengths, starts and offsets), each other, or the workspace. A tensor
 *     occupies the memory from its first to its last element: an output in the gaps between an input's rows is refused.
 *   - Floating-point exceptions neither trap nor leave a flag, here and in all functions of the library. Traps that the
 *     caller had enabled are enabled again afterwards.
 *   - All threads use the caller's rounding mode and flush-to-zero setting.
 *   - The call runs on the calling thread alone if it is made inside a parallel region, or inside a task of its own
 *     parallel_for. If the context uses OpenMP's threads, a forked child of a process that had several threads also
 *     runs its calls on the calling thread alone.
 *   - Errors: FOVEA_ERROR_NULL (an operand that desc asks for is missing), _ARGUMENT (an operand that it does not ask
 *     for is given; an offset or a list of blocks is out of range), _SHAPE (a size, length or start contradicts
 *     another), _DTYPE, _STRIDE, _ALIAS, _OVERFLOW, _WORKSPACE, _VERSION, _OUT_OF_MEMORY; for keys in pages, see there.
 * Thread-safe, on one plan or many. */
FOVEA_API fovea_status fovea_attention_execute(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                               void *workspace, size_t workspace_size);

/* Attention in one call, for contiguous [batch, heads, tokens, channels] arrays with scale 1/sqrt(head_dim). causal is
 * any but FOVEA_CAUSAL_OFFSET. Results have the bits of the planned form. From the second call of a shape on, it is as
 * fast as the planned form. The first call creates a default context, which reads the environment. It is kept for the
 * life of the process, with the plans and workspaces of the last 16 shapes. Thread-safe. */
FOVEA_API fovea_status fovea_sdpa_f32(const float *q, const float *k, const float *v, float *out, int64_t batch,
                                      int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                                      int64_t head_dim, int64_t value_dim, fovea_causal causal);

#ifdef __cplusplus
}
#endif
#endif
