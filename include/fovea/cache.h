/* Fovea: a cache of keys and values for decoding, and page tables of other systems. Part of fovea.h.
 *
 *     fovea_kv_cache_desc_init(&desc);
 *     desc.layers = 30; desc.kv_heads = 3; desc.head_dim = desc.value_dim = 64;
 *     desc.max_bytes = (int64_t)1 << 30;
 *     fovea_kv_cache_create(ctx, &desc, &cache);
 *     fovea_kv_cache_add(cache, &sequence);
 *     for each token or chunk of a prompt:
 *         fovea_kv_cache_reserve(cache, 1, &sequence, &tokens);              optional: now no layer can find it full
 *         for each layer:
 *             append.layer = layer; append.count = 1; append.sequences = &sequence; append.k = ...; append.v = ...;
 *             fovea_kv_cache_append(cache, &append);
 *             args.cache = cache; args.cache_layer = layer; args.cache_sequences = &sequence;
 *             fovea_attention_execute(plan, &args, workspace, size);         of a plan with desc.page_keys = 256
 *
 * A page holds 256 positions of one layer: the keys and values of all its heads. A sequence is a list of pages. Results
 * are, bit for bit, those of the same keys and values in contiguous tensors, however they were appended, forked or
 * shared.
 *
 * Keys, values or both may be FOVEA_DTYPE_I8, which takes a quarter of float32's bytes. int8 has an arithmetic of its
 * own, with the same bits on every tier, for any number of queries, in any chunks. The row of a token and head is
 * stored as integers from -127 to 127 and a float32 scale, whatever the caller's rounding mode:
 *     scale = max|x| / 127, element = x * (127 / max|x|) rounded to nearest, ties to even
 * A row whose max|x| is below 2^-119 is stored as zeros with scale 0. A row with an infinity or a NaN is stored as
 * zeros with scale NaN: scores with that key, or all channels of outputs that attend to that value, are then NaN.
 * Attention computes
 *     keys     The query becomes integers, too: Q = q * (16319 / max|q|), to nearest even, with the scale max|q| /
 *              16319. The sum of Q * k over channels is exact. The score is that sum as a float32 times (scale of q *
 *              scale of k), each rounded. In addition to float32's rounding errors, |error| <= max|q| / 32638 * sum|k|
 *              + (scale of k) / 2 * sum|q|.
 *     values   Each weight is multiplied by its key's scale, rounded, then summed as in float32. The divisor is the sum
 *              of the unscaled weights. In addition to float32's errors, the error of an output is at most half the
 *              largest scale.
 *
 * FOVEA_DTYPE_I4 takes 0.5625 bytes a channel, of keys, values or both; K and V choose independently. Its bits, too, do
 * not depend on tier, chunks or the number of queries. A row is first rotated by sums and differences (a Walsh-Hadamard
 * transform in blocks of the largest power of two that divides its channels), which spreads outliers over all channels.
 * Each group of 32 channels, the last one shorter, is then stored as integers from -7 to 7 and a float16 scale:
 *     scale = max|x| / 7 rounded to float16, element = x * (1 / scale) rounded to nearest, ties to even
 * A group whose scale rounds to 0 is stored as zeros. A group with a NaN, or whose scale is more than float16 holds, is
 * stored as zeros with scale NaN. Rotation spreads an infinity or NaN over its block, so what int8 says of such rows
 * holds for these. Queries are rotated likewise and become integers of 15 bits in groups of 32 channels; outputs are
 * rotated back once, at the end. An attention state of such values is rotated, too: it does not merge with others
 * (state.h). kernels/int4.h has the formulas. */
#ifndef FOVEA_CACHE_H
#define FOVEA_CACHE_H

#include "context.h"
#include "rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Positions of a page. */
#define FOVEA_KV_PAGE_KEYS 256

typedef struct fovea_kv_cache_desc {
    size_t struct_size;
    int64_t layers;               /* >= 1, default 1 */
    int64_t kv_heads;             /* >= 1 */
    int64_t head_dim;             /* >= 1 channels of keys */
    int64_t value_dim;            /* >= 1 channels of values */
    fovea_dtype k_dtype, v_dtype; /* as stored: FOVEA_DTYPE_F32 (default), _BF16, _F16, _I8 or _I4 each */
    /* Set exactly one of these, and leave the other 0: pages in total, below 2^31, or bytes of pages. */
    int64_t max_pages;
    int64_t max_bytes;
    /* [layers] or NULL: no windows. With w >= 0, a query of that layer sees at most w keys before its position
     * (window_left of attention), and pages wholly before that are freed as tokens are appended. -1: no window.
     * Copied. */
    const int64_t *windows;
    const fovea_rope *rope;    /* or NULL; rotates keys as they are appended; must outlive the cache */
    fovea_placement placement; /* of pages (context.h); default FOVEA_PLACEMENT_DEFAULT; not FOVEA_PLACEMENT_COPIES */
    int placement_node;        /* of FOVEA_PLACEMENT_NODE; else 0 */
} fovea_kv_cache_desc;
FOVEA_DEFINE_INIT(fovea_kv_cache_desc_init, fovea_kv_cache_desc, FOVEA_STRUCT_KV_CACHE_DESC)

/* Keys and values of sequences. Calls on different sequences may run at once, even if one is a fork of the other. Any
 * number of threads may attend to one sequence. While one thread changes a sequence (append, reserve, truncate, evict,
 * remove), no other may use it. Calls hold a lock only while they read lists of pages, never while they copy or
 * compute.
 *
 * A forked child process has a copy of the cache, and may use it, whatever other threads were doing. A sequence that
 * another thread was changing can only be removed in the child, and its pages may stay in use there. */
typedef struct fovea_kv_cache fovea_kv_cache;

/* Creates a cache without sequences. Reserves the address space of all pages at once. The system provides memory when a
 * page is first used, with a placement by node at once, and gets it back from fovea_kv_cache_destroy(). ctx must
 * outlive the cache. FOVEA_ERROR_SHAPE (a size; limits below one page; int8 keys, or 4-bit keys or values, of more than
 * 1024 channels), _OVERFLOW, _DTYPE, _ARGUMENT (limits, windows, or a rope of more channels than head_dim), _VERSION,
 * _OUT_OF_MEMORY. Thread-safe. */
FOVEA_API fovea_status fovea_kv_cache_create(const fovea_context *ctx, const fovea_kv_cache_desc *desc,
                                             fovea_kv_cache **cache);

/* Frees a cache with all its sequences. No thread may be using it. */
FOVEA_API void fovea_kv_cache_destroy(fovea_kv_cache *cache);

/* A sequence is a number. Numbers of removed sequences are never used again. An unknown number gives
 * FOVEA_ERROR_ARGUMENT everywhere. A call that fails has changed nothing. */

/* Adds a sequence without tokens. FOVEA_ERROR_OUT_OF_MEMORY. After an error *sequence is -1. */
FOVEA_API fovea_status fovea_kv_cache_add(fovea_kv_cache *cache, int64_t *sequence);

/* Adds a sequence with the tokens of another, in all layers. Both share all pages. A shared page (the last one, if it
 * is not full) is copied when a sequence first writes to it. The fork itself takes no page. Reserved pages stay with
 * the original. FOVEA_ERROR_ARGUMENT, _OUT_OF_MEMORY. After an error *fork is -1. */
FOVEA_API fovea_status fovea_kv_cache_fork(fovea_kv_cache *cache, int64_t sequence, int64_t *fork);

/* Removes a sequence, and frees its pages that no other sequence shares. FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_remove(fovea_kv_cache *cache, int64_t sequence);

/* Removes all sequences; no thread may be using one. NULL is ignored. */
FOVEA_API void fovea_kv_cache_clear(fovea_kv_cache *cache);

/* *length = the number of tokens of a sequence in one layer, evicted ones included: the position of the next token.
 * FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_length(fovea_kv_cache *cache, int64_t layer, int64_t sequence, int64_t *length);

/* Reserves pages for tokens[i] more tokens of sequences[i], in all layers, and copies shared pages that will be written
 * to. Frees pages behind windows, like appending. Appending that many tokens then cannot find the cache full, unless
 * the sequence is forked in between: its last page, if begun, must then be copied. FOVEA_ERROR_FULL (no pages are
 * reserved then), _SHAPE (tokens below 0), _ARGUMENT (also if a sequence is named twice), _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_kv_cache_reserve(fovea_kv_cache *cache, int64_t count, const int64_t *sequences,
                                              const int64_t *tokens);

typedef struct fovea_kv_append_args {
    size_t struct_size;
    int64_t layer;
    int64_t count;            /* of sequences, >= 0 */
    const int64_t *sequences; /* [count], all different; each gets its tokens after those that it has */
    fovea_tensor k;           /* [count, kv_heads, tokens, head_dim], FOVEA_DTYPE_F32, _BF16 or _F16 */
    fovea_tensor v;           /* [count, kv_heads, tokens, value_dim], likewise */
    const int64_t *lens;      /* [count] or NULL: sequence i gets its first lens[i] <= tokens; the rest is not read */
    /* [count + 1] or NULL. If given, k and v are [1, kv_heads, tokens, channels], sequence i gets tokens
     * [cu_seqlens[i], cu_seqlens[i + 1]), and lens is NULL. */
    const int64_t *cu_seqlens;
    int rotated;  /* nonzero: keys are already rotated, so the cache's rope is not applied; default 0 */
    int reserved; /* 0 */
} fovea_kv_append_args;
FOVEA_DEFINE_INIT(fovea_kv_append_args_init, fovea_kv_append_args, FOVEA_STRUCT_KV_APPEND_ARGS)

/* Appends tokens to one layer of sequences.
 *   - The cache's rope rotates keys at their positions (rope.h). Then keys and values are converted to the cache's
 *     types, rounded once: as fovea_convert() rounds, or to integers as above.
 *   - Layers are independent: append to each. If a step is abandoned halfway, fovea_kv_cache_truncate() brings layers
 *     back to one length.
 *   - In a layer with a window, pages are freed that no query from the first appended token on sees.
 *   - Runs on ctx's threads if there is enough work. With reserved pages nothing is allocated.
 *   - Errors: FOVEA_ERROR_SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ARGUMENT (a layer, a sequence, a sequence named twice, a
 *     position past FOVEA_ROPE_MAX_POSITION), _VERSION, _FULL, _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_kv_cache_append(fovea_kv_cache *cache, const fovea_kv_append_args *append);

/* Removes the last tokens of a sequence: all layers keep at most length tokens. Later pages are freed, and so are
 * reserved ones. FOVEA_ERROR_ARGUMENT if a layer's window has freed keys that the next token would see (length 0 is
 * always legal), _SHAPE (length below 0). */
FOVEA_API fovea_status fovea_kv_cache_truncate(fovea_kv_cache *cache, int64_t sequence, int64_t length);

/* Evicts positions [begin, end) from all layers of a sequence. Attention skips them, as with a boolean mask. Pages
 * wholly inside evicted ranges are freed. All other tokens keep their positions. end is at most the shortest layer's
 * length. FOVEA_ERROR_SHAPE (the range), _ARGUMENT, _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_kv_cache_evict(fovea_kv_cache *cache, int64_t sequence, int64_t begin, int64_t end);

typedef struct fovea_kv_stats {
    size_t struct_size;
    int64_t page_bytes;   /* of one page: 256 keys and values of all heads of a layer, scales, padding to cache lines */
    int64_t token_bytes;  /* of one token in all layers, without padding */
    int64_t max_pages;    /* of the cache */
    int64_t used_pages;   /* pages of any sequence, shared ones counted once */
    int64_t shared_pages; /* pages of several sequences */
    int64_t sequences;    /* now */
    /* Since the cache was created: */
    int64_t appended_tokens; /* in any layer */
    int64_t copied_pages;    /* because they were shared */
    int64_t window_pages;    /* freed behind a window */
    int64_t evicted_pages;   /* freed by fovea_kv_cache_evict() */
    int64_t peak_pages;      /* most in use at once: the memory that the system has provided */
} fovea_kv_stats;
FOVEA_DEFINE_INIT(fovea_kv_stats_init, fovea_kv_stats, FOVEA_STRUCT_KV_STATS)

/* Fills *stats. used_pages * page_bytes are the bytes in use. FOVEA_ERROR_VERSION. */
FOVEA_API fovea_status fovea_kv_cache_stats(fovea_kv_cache *cache, fovea_kv_stats *stats);

/* Writes a sequence into data[size], with a checksum: all layers, lengths, evicted ranges, and the tokens that the
 * cache still has. *needed = its size in bytes. To ask for the size alone, pass data NULL. If size is too small,
 * nothing is written: FOVEA_ERROR_WORKSPACE. The bytes hold no pointers and do not depend on the tier: any machine of
 * the same byte order can load them. FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_save(fovea_kv_cache *cache, int64_t sequence, void *data, size_t size,
                                           size_t *needed);

/* Adds a saved sequence, which may come from another cache or process. data is untrusted input: everything is checked
 * before a page is taken. FOVEA_ERROR_FILE if it is not a saved sequence, truncated or damaged; _VERSION if a newer
 * library wrote it, or one of another FOVEA_BITS_VERSION; _INCOMPATIBLE if its cache had other layers, heads, channels,
 * types, windows or rope; _FULL, _OUT_OF_MEMORY. After an error *sequence is -1.
 *
 * The memory it takes is bounded by size and by the cache's pages. But a few bytes may stand for 2^31 evicted tokens.
 * Check fovea_kv_cache_length() before you plan attention over the sequence: workspace and time grow with
 * desc.kv_len. */
FOVEA_API fovea_status fovea_kv_cache_load(fovea_kv_cache *cache, const void *data, size_t size, int64_t *sequence);

/* Pages of the caller's own, which attention reads without a cache (args.pages): vLLM's block tables, FlashInfer's
 * indptr and indices, or any pool. Page p holds keys k[p] and values v[p]. Page size, types and sizes are those of the
 * plan. Key j of sequence b is key j % page_keys of page table[b * table_stride + j / page_keys], or of page
 * table[starts[b] + j / page_keys] if starts is given. args.kv_lens has the number of keys of each sequence. Keys past
 * that are not read.
 *
 * Pages of int8 and 4-bit integers have separate scales. fovea_kv_pages_append() writes them, and results have the
 * bits of a cache of these types.
 *   - int8 values lie in rows. int8 keys are interleaved: of each 32 keys of a page and head the first 4 channels, key
 *     after key, then the next 4. 4-bit keys and values lie in an order of the library's own.
 *   - So page_keys is a multiple of 32 with int8 keys, of 64 with 4-bit keys or values.
 *   - Except for int8 values, the elements of a page and head are one block, which begins with a multiple of 4 bytes.
 *     Its token stride is the number of channels, rounded up to a multiple of 4 (int8 keys), 16 (4-bit keys) or 8
 *     (4-bit values). The scales of a page and head are one block, too, of token stride shape[3].
 *   - Strides are in elements, of which two 4-bit ones are in a byte. */
typedef struct fovea_kv_pages {
    size_t struct_size;
    fovea_tensor k;        /* [pages, kv_heads, page_keys, head_dim], any strides */
    fovea_tensor v;        /* [pages, kv_heads, page_keys, value_dim], any strides */
    const int32_t *table;  /* pages of sequences; entries past a sequence's last page are not read */
    int64_t table_stride;  /* without starts: entries from one sequence to the next */
    const int32_t *starts; /* [batch] or NULL: first entry of each sequence */
    /* Absent but for int8: [pages, kv_heads, page_keys, 1], FOVEA_DTYPE_F32; and 4 bits: [pages, kv_heads, page_keys,
     * channels / 32 rounded up], FOVEA_DTYPE_F16. */
    fovea_tensor k_scales, v_scales;
} fovea_kv_pages;
FOVEA_DEFINE_INIT(fovea_kv_pages_init, fovea_kv_pages, FOVEA_STRUCT_KV_PAGES)

/* Writes tokens into pages of the caller's own, converted as fovea_kv_cache_append() converts. Tokens of the call's
 * sequence i go behind the lengths[i] tokens that it has, into pages that the table has for them. Pages of a batch are
 * those of one layer; k and v say their types and sizes.
 *   - Of *append, sequences is NULL and layer 0. Keys are written as they are: rotate them before (fovea_rope_apply()).
 *   - A page that several sequences share must not be written to: copy it first. Other positions of a page keep their
 *     bytes, so that different sequences, or layers, may be written at once.
 *   - Runs on ctx's threads if there is enough work, and allocates nothing.
 *   - Errors: FOVEA_ERROR_SHAPE (also a table that is too short, and pages of a size that the types do not allow),
 *     _OVERFLOW, _STRIDE, _DTYPE, _ARGUMENT (a page is not in the pool), _ALIAS, _NULL, _VERSION. Nothing is written
 *     then. */
FOVEA_API fovea_status fovea_kv_pages_append(const fovea_context *ctx, const fovea_kv_pages *pages,
                                             const int64_t *lengths, const fovea_kv_append_args *append);

#ifdef __cplusplus
}
#endif
#endif
