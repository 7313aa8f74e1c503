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
 * A page holds 256 positions of one layer: the keys and values of all its heads. Sequences are lists of pages. Results
 * are, bit for bit, those of the same keys and values in contiguous tensors, however they were appended, forked or
 * shared.
 *
 * Keys or values of FOVEA_DTYPE_I8 (either, or both) take a quarter of float32's bytes. They have their own arithmetic,
 * with the same bits on every tier, for any number of queries, in any chunks. The row of a token and head is stored as
 * integers from -127 to 127 and a float32 scale, whatever the caller's rounding mode:
 *     scale = max|x| / 127, element = x * (127 / max|x|) rounded to nearest, ties to even
 * A row whose max|x| is below 2^-119 is kept as zeros with scale 0; one with an infinity or a NaN as zeros with scale
 * NaN, so that scores with that key, or all channels of outputs that attend to that value, are NaN. Attention computes
 *     keys     each query becomes integers likewise, Q = q * (16319 / max|q|) to nearest even, with the scale max|q| /
 *              16319; the sum of Q * k over channels is exact; the score is that sum as a float32 times (scale of q *
 *              scale of k), each rounded. In addition to float32's rounding errors, |error| <= max|q| / 32638 * sum|k|
 *              + (scale of k) / 2 * sum|q|.
 *     values   each weight is multiplied by its key's scale, rounded; then sums as in float32. The divisor is the sum
 *              of the unscaled weights. In addition to float32's errors, that of an output is at most half the largest
 *              scale. */
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
    fovea_dtype k_dtype, v_dtype; /* as stored: FOVEA_DTYPE_F32 (default), _BF16, _F16 or _I8 each */
    int64_t max_pages;            /* set exactly one, and leave the other 0: pages in total, below 2^31, */
    int64_t max_bytes;            /* or bytes of pages */
    /* [layers] or NULL (none): with w >= 0 a query of that layer sees at most w keys before its position (window_left
     * of attention), and pages wholly behind that are freed as tokens are appended; -1: no window. Copied. */
    const int64_t *windows;
    const fovea_rope *rope; /* NULL, or rotates keys as they are appended; must outlive the cache */
} fovea_kv_cache_desc;

/* Sets struct_size and the defaults. Sizes without a default are 0: you must set them. */
#define fovea_kv_cache_desc_init(desc) fovea_kv_cache_desc_init_size((desc), sizeof(fovea_kv_cache_desc))
FOVEA_API void fovea_kv_cache_desc_init_size(fovea_kv_cache_desc *desc, size_t size);

/* Keys and values of sequences. Thread-safe, sequence by sequence: calls on different sequences, forks of each other
 * included, may run at once, and any number of threads may attend to one. But while one thread changes a sequence
 * (append, reserve, truncate, evict, remove), no other may use that sequence. Calls share a lock only while they look
 * at lists of pages, never while they copy or compute.
 *
 * A forked child has a copy of the cache, and may use it, whatever other threads were doing. But a sequence that one of
 * them was changing can only be removed in the child, and pages that it had may stay taken there. */
typedef struct fovea_kv_cache fovea_kv_cache;

/* Creates a cache without sequences. Reserves the address space of all pages at once; the system provides memory page
 * by page when it is first used, and gets it back from fovea_kv_cache_destroy(). ctx must outlive the cache. After an
 * error *cache is NULL: FOVEA_ERROR_NULL, _SHAPE (a size, no room for one page, or int8 keys of more than 1024
 * channels), _OVERFLOW, _DTYPE, _ARGUMENT (limits, windows, or a rope of more channels than head_dim), _VERSION,
 * _OUT_OF_MEMORY. Thread-safe. */
FOVEA_API fovea_status fovea_kv_cache_create(const fovea_context *ctx, const fovea_kv_cache_desc *desc,
                                             fovea_kv_cache **cache);

/* Frees it with all its sequences; NULL is allowed. No thread may be using it. */
FOVEA_API void fovea_kv_cache_destroy(fovea_kv_cache *cache);

/* Sequences are numbers; that of a removed one is never given again. A number that is no sequence's is
 * FOVEA_ERROR_ARGUMENT everywhere. */

/* Adds a sequence without tokens. FOVEA_ERROR_NULL, _OUT_OF_MEMORY. After an error *sequence is -1. */
FOVEA_API fovea_status fovea_kv_cache_add(fovea_kv_cache *cache, int64_t *sequence);

/* Adds a sequence with the tokens of another, in all layers. They share all pages. A shared page is copied when one of
 * them first writes to it (the last page, if it is not full). The fork takes no page itself. Reserved pages stay with
 * the origin. FOVEA_ERROR_NULL, _ARGUMENT, _OUT_OF_MEMORY. After an error *fork is -1. */
FOVEA_API fovea_status fovea_kv_cache_fork(fovea_kv_cache *cache, int64_t sequence, int64_t *fork);

/* Removes a sequence. Pages that no other sequence has are free. FOVEA_ERROR_NULL, _ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_remove(fovea_kv_cache *cache, int64_t sequence);

/* Removes all sequences; no thread may be using one. NULL is ignored. */
FOVEA_API void fovea_kv_cache_clear(fovea_kv_cache *cache);

/* *length = tokens of a sequence in one layer, evicted ones included: the position of the next. FOVEA_ERROR_NULL,
 * _ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_length(fovea_kv_cache *cache, int64_t layer, int64_t sequence, int64_t *length);

/* Takes the pages that tokens[i] more tokens of sequences[i] need, in all layers, and copies those that are shared and
 * would be written to; frees pages behind windows as appending does. Appends of that many tokens then cannot find the
 * cache full, unless the sequence is forked in between: its last page, if begun, is then to be copied. All or nothing:
 * FOVEA_ERROR_FULL, and nothing has changed. Also FOVEA_ERROR_NULL, _SHAPE (tokens below 0), _ARGUMENT (also: a
 * sequence is named twice), _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_kv_cache_reserve(fovea_kv_cache *cache, int64_t count, const int64_t *sequences,
                                              const int64_t *tokens);

typedef struct fovea_kv_append {
    size_t struct_size;
    int64_t layer;
    int64_t count;            /* of sequences, >= 0 */
    const int64_t *sequences; /* [count], all different: each gets its tokens behind those that it has */
    fovea_tensor k;           /* [count, kv_heads, tokens, head_dim], FOVEA_DTYPE_F32, _BF16 or _F16 */
    fovea_tensor v;           /* [count, kv_heads, tokens, value_dim], likewise */
    const int64_t *lens;      /* [count] or NULL: sequence i gets lens[i] <= tokens; those past them are not read */
    /* [count + 1] or NULL. If given, k and v are [1, kv_heads, tokens, channels], and sequence i gets tokens
     * [cu_seqlens[i], cu_seqlens[i + 1]); lens is NULL then. */
    const int64_t *cu_seqlens;
    int64_t rotated; /* nonzero: keys are rotated already, and the cache's rope is not applied; default 0 */
} fovea_kv_append;

/* Sets struct_size and leaves everything else absent. */
#define fovea_kv_append_init(append) fovea_kv_append_init_size((append), sizeof(fovea_kv_append))
FOVEA_API void fovea_kv_append_init_size(fovea_kv_append *append, size_t size);

/* Appends tokens to one layer of sequences. Rotary embedding is applied to keys at their positions (rope.h), then keys
 * and values are converted to the cache's types, rounded once, as fovea_convert() rounds or, to int8, as above. All
 * pages are taken before a byte is written: FOVEA_ERROR_FULL, and nothing has changed. Layers are independent: append
 * to each; fovea_kv_cache_truncate() brings them back to one length if a step is abandoned halfway. In a layer with a
 * window, pages are freed that queries from the first appended token on do not see. Runs on ctx's threads where there
 * is enough to do. With reserved pages nothing is allocated. Errors: FOVEA_ERROR_NULL, _SHAPE, _OVERFLOW, _STRIDE,
 * _DTYPE, _ARGUMENT (a layer, a sequence, one named twice, a position past FOVEA_ROPE_MAX_POSITION), _VERSION, _FULL,
 * _OUT_OF_MEMORY. After an error nothing has changed. */
FOVEA_API fovea_status fovea_kv_cache_append(fovea_kv_cache *cache, const fovea_kv_append *append);

/* Removes the last tokens of a sequence: all layers keep at most length tokens. Pages behind that are freed, reserved
 * ones too. If a layer has a window and keys are gone that the next token would see: FOVEA_ERROR_ARGUMENT, and nothing
 * has changed (length 0 is always legal). Also FOVEA_ERROR_NULL, _SHAPE (length below 0). */
FOVEA_API fovea_status fovea_kv_cache_truncate(fovea_kv_cache *cache, int64_t sequence, int64_t length);

/* Evicts positions [begin, end) from all layers of a sequence: attention skips them, as with a boolean mask, and pages
 * wholly inside evicted ranges are freed. All other positions stay the same. end is at most the shortest layer's
 * length. FOVEA_ERROR_NULL, _SHAPE (the range), _ARGUMENT, _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_kv_cache_evict(fovea_kv_cache *cache, int64_t sequence, int64_t begin, int64_t end);

typedef struct fovea_kv_stats {
    size_t struct_size;
    int64_t page_bytes;   /* of one page: 256 keys and values of all heads of a layer, scales, padding to cache lines */
    int64_t token_bytes;  /* of one token in all layers, without it */
    int64_t max_pages;    /* of the cache */
    int64_t used_pages;   /* that some sequence has, shared ones counted once */
    int64_t shared_pages; /* that more than one has */
    int64_t sequences;    /* now */
    int64_t appended_tokens; /* tokens, in any layer, since the cache was created; likewise: */
    int64_t copied_pages;    /* because they were shared */
    int64_t window_pages;    /* that a sequence freed behind a window */
    int64_t evicted_pages;   /* that a sequence freed in fovea_kv_cache_evict() */
    int64_t peak_pages;      /* in use at once: how much memory the system has provided */
} fovea_kv_stats;

/* Sets struct_size, and zeros. */
#define fovea_kv_stats_init(stats) fovea_kv_stats_init_size((stats), sizeof(fovea_kv_stats))
FOVEA_API void fovea_kv_stats_init_size(fovea_kv_stats *stats, size_t size);

/* Bytes in use are used_pages * page_bytes. FOVEA_ERROR_NULL, _VERSION. */
FOVEA_API fovea_status fovea_kv_cache_stats(fovea_kv_cache *cache, fovea_kv_stats *stats);

/* Writes a sequence into data[size]: all layers, lengths, evicted ranges, and what is kept of its tokens (those evicted
 * or gone behind windows are not in it), with a checksum. *needed = its bytes, also where data is NULL or size is less;
 * then nothing is written and the status is FOVEA_OK with data NULL, FOVEA_ERROR_WORKSPACE else. The bytes hold no
 * pointers and do not depend on tier or page list: any machine of the same byte order can load them. FOVEA_ERROR_NULL,
 * _ARGUMENT. */
FOVEA_API fovea_status fovea_kv_cache_save(fovea_kv_cache *cache, int64_t sequence, void *data, size_t size,
                                           size_t *needed);

/* Adds a saved sequence, also from another cache or process. data is untrusted input: everything is checked before a
 * page is taken. FOVEA_ERROR_FILE if it is no saved sequence, cut off or damaged; _VERSION if a newer library wrote it;
 * _INCOMPATIBLE if it is from a cache with other layers, heads, channels, types, windows or rope; _FULL, _NULL,
 * _OUT_OF_MEMORY. After an error *sequence is -1, and nothing has changed.
 *
 * The memory it takes is bounded by size and by the cache's pages. Yet a few bytes may be a sequence of 2^31 evicted
 * tokens: look at fovea_kv_cache_length() before you plan attention over it, whose workspace and time grow with
 * desc.kv_len. */
FOVEA_API fovea_status fovea_kv_cache_load(fovea_kv_cache *cache, const void *data, size_t size, int64_t *sequence);

/* Pages of another system, as attention reads them without a cache (args.pages): vLLM's block tables, FlashInfer's
 * indptr and indices, or any pool. Page p holds keys k[p] and values v[p]; page size, types and sizes are those of the
 * plan (desc.page_keys ...), but never int8, which has scales only in a cache. Key j of sequence b is key j % page_keys
 * of page table[b * table_stride + j / page_keys], or, if starts is given, of page table[starts[b] + j / page_keys].
 * args.kv_lens says how many keys sequences have. Keys of a page past them are not read. */
typedef struct fovea_kv_pages {
    size_t struct_size;
    fovea_tensor k;        /* [pages, kv_heads, page_keys, head_dim], any strides */
    fovea_tensor v;        /* [pages, kv_heads, page_keys, value_dim], any strides */
    const int32_t *table;  /* pages of sequences; entries past a sequence's last page are not read */
    int64_t table_stride;  /* without starts: entries of a sequence */
    const int32_t *starts; /* [batch] or NULL */
} fovea_kv_pages;

/* Sets struct_size and leaves everything else absent. */
#define fovea_kv_pages_init(pages) fovea_kv_pages_init_size((pages), sizeof(fovea_kv_pages))
FOVEA_API void fovea_kv_pages_init_size(fovea_kv_pages *pages, size_t size);

#ifdef __cplusplus
}
#endif
#endif
