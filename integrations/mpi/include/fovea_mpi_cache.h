/* Fovea over MPI: a cache of keys and values (fovea/cache.h) that is spread over ranks, and attention over it.
 *
 *     fovea_kv_cache_desc_init(&desc);                    max_pages or max_bytes are those of this rank
 *     fovea_mpi_cache_create(comm, ctx, &desc, 1, &cache);
 *     fovea_mpi_cache_add(cache, &sequence);
 *     whole.page_keys = FOVEA_KV_PAGE_KEYS;               of a plan (fovea_mpi.h) with stripe_segments 1
 *     for each token or chunk of a prompt:
 *         fovea_mpi_cache_append(cache, &append);         as for one cache: keys and values of all tokens
 *         args.cache_sequences = &sequence; args.q = ...; args.out = ...;
 *         fovea_mpi_cache_attention(plan, cache, &args, workspace, size);
 *
 * A sequence is cut into segments of 256 positions, in stripes dealt back and forth like the keys of a plan. A rank
 * keeps the segments that are its own, and nothing of others: R ranks hold R times the tokens. Positions never move.
 * Results have the bits of one fovea_kv_cache with all tokens, in all its types, through any appends, forks,
 * evictions and truncations.
 *
 * All functions but _length() and _stats() are collective: all ranks call them, in the same order, with the same
 * numbers. A bad argument, a full cache or a lack of memory on one rank is told on all, and nothing has changed then,
 * on any rank. Each costs one small reduction. One thread of a rank uses a cache at a time; fovea_mpi.h says more. */
#ifndef FOVEA_MPI_CACHE_H
#define FOVEA_MPI_CACHE_H

#include "fovea_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_mpi_cache fovea_mpi_cache;

/* desc: as for fovea_kv_cache_create(), the same on all ranks but for max_pages and max_bytes, which are this rank's.
 * Ropes are compared by their angles. ctx and desc->rope must outlive the cache. stripe_segments: >= 1, segments of 256 positions in a stripe; plans that
 * read the cache must have the same. 1 spreads sequences of any length evenly; ceil(segments of the longest sequence /
 * ranks) splits it contiguously.
 *
 * Errors: those of fovea_kv_cache_create(), and FOVEA_ERROR_NULL, _ARGUMENT (stripe_segments, or something differs
 * between ranks, or MPI is not initialised). After an error *cache is NULL. */
FOVEA_API fovea_status fovea_mpi_cache_create(MPI_Comm comm, const fovea_context *ctx, const fovea_kv_cache_desc *desc,
                                              int64_t stripe_segments, fovea_mpi_cache **cache);

/* Frees a cache and its communicator. NULL is allowed. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_cache_destroy(fovea_mpi_cache *cache);

/* These mean what their namesakes of fovea/cache.h do, with the same errors; FOVEA_ERROR_ARGUMENT also if ranks differ
 * in an argument. Sequences have the same numbers on all ranks. */
FOVEA_API fovea_status fovea_mpi_cache_add(fovea_mpi_cache *cache, int64_t *sequence);
FOVEA_API fovea_status fovea_mpi_cache_fork(fovea_mpi_cache *cache, int64_t sequence, int64_t *fork);
FOVEA_API fovea_status fovea_mpi_cache_remove(fovea_mpi_cache *cache, int64_t sequence);
FOVEA_API void fovea_mpi_cache_clear(fovea_mpi_cache *cache);
FOVEA_API fovea_status fovea_mpi_cache_truncate(fovea_mpi_cache *cache, int64_t sequence, int64_t length);
FOVEA_API fovea_status fovea_mpi_cache_evict(fovea_mpi_cache *cache, int64_t sequence, int64_t begin, int64_t end);

/* Appends. k and v have rows for all tokens, on all ranks; a rank reads those of its own positions, and the others may
 * hold anything. FOVEA_ERROR_FULL if one rank lacks pages. In a layer with a window, pages behind it are freed after
 * the tokens are written. */
FOVEA_API fovea_status fovea_mpi_cache_append(fovea_mpi_cache *cache, const fovea_kv_append *append);

/* The number of tokens of a sequence in one layer, on all ranks together. Local. */
FOVEA_API fovea_status fovea_mpi_cache_length(const fovea_mpi_cache *cache, int64_t layer, int64_t sequence,
                                              int64_t *length);

/* Pages and counts of this rank; token_bytes and sequences are those of the whole cache. Local. */
FOVEA_API fovea_status fovea_mpi_cache_stats(fovea_mpi_cache *cache, fovea_kv_stats *stats);

/* Attention of a plan whose description has page_keys FOVEA_KV_PAGE_KEYS, and the types and sizes of the cache. Like
 * fovea_mpi_attention_execute(), but for keys: args.cache_layer and args.cache_sequences say which, the same on all
 * ranks; k, v and args.cache are absent. Sequence b has its first kv_lens[b] keys, or all without kv_lens.
 * FOVEA_CAUSAL_BOTTOM_RIGHT counts from these.
 *   - Blocks have all key heads. Workspace and messages are those of the plan.
 *   - Errors: those of fovea_mpi_attention_execute(); of keys in pages (fovea/attention.h): a sequence that is longer
 *     than the plan's kv_len or shorter than kv_lens[b], or keys that a query sees and a window has freed;
 *     FOVEA_ERROR_ARGUMENT if stripes or communicators of plan and cache differ. */
FOVEA_API fovea_status fovea_mpi_cache_attention(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache,
                                                 const fovea_attention_args *args, void *workspace,
                                                 size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif
