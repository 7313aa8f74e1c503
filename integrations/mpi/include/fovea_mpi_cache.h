/* Fovea over MPI: a cache of keys and values (fovea/cache.h) distributed over ranks, and attention over it.
 *
 *     fovea_kv_cache_desc_init(&desc);                    max_pages or max_bytes: of this rank
 *     fovea_mpi_cache_create(comm, ctx, &desc, 1, &cache);
 *     fovea_mpi_cache_add(cache, &sequence);
 *     whole.page_keys = FOVEA_KV_PAGE_KEYS;               in a plan (fovea_mpi.h) with stripe_segments 1
 *     for each token or chunk of a prompt:
 *         fovea_mpi_cache_append(cache, &append);         as for one cache: keys and values of all tokens
 *         args.cache_sequences = &sequence; args.q = ...; args.out = ...;
 *         fovea_mpi_cache_attention(plan, cache, &args, workspace, size);
 *
 * Sequences are cut into stripes of segments of 256 positions, which ranks get back and forth like the keys of a plan.
 * A rank stores its own segments only, so R ranks hold R times the tokens. Positions never move. Results have the bits
 * of one fovea_kv_cache with all tokens, in all its types, after any appends, forks, evictions and truncations.
 *
 * All functions but _length() and _stats() are collective: all ranks call them in the same order, with the same
 * arguments. If a call fails on any rank (an invalid argument, a full cache, no memory), every rank returns the error
 * and the cache is unchanged on all ranks. Each call costs one small reduction. One thread of a rank uses a cache at a
 * time; see fovea_mpi.h for threads. */
#ifndef FOVEA_MPI_CACHE_H
#define FOVEA_MPI_CACHE_H

#include "fovea_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_mpi_cache fovea_mpi_cache;

/* desc: as for fovea_kv_cache_create(), the same on all ranks except max_pages and max_bytes, which are this rank's.
 * Ropes are compared by their angles. ctx and desc->rope must outlive the cache. stripe_segments: segments of 256
 * positions in a stripe, >= 1; plans that read the cache must have the same number. 1 distributes sequences of any
 * length evenly; ceil(segments of the longest sequence / ranks) splits it contiguously.
 *
 * Errors: those of fovea_kv_cache_create(), and FOVEA_ERROR_NULL, _ARGUMENT (stripe_segments, or something differs
 * between ranks, or MPI is not initialized). After an error *cache is NULL on all ranks. */
FOVEA_API fovea_status fovea_mpi_cache_create(MPI_Comm comm, const fovea_context *ctx, const fovea_kv_cache_desc *desc,
                                              int64_t stripe_segments, fovea_mpi_cache **cache);

/* Frees a cache and its communicator. NULL is allowed. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_cache_destroy(fovea_mpi_cache *cache);

/* Like the functions of the same names in fovea/cache.h, with their errors; FOVEA_ERROR_ARGUMENT also if an argument
 * differs between ranks. A sequence has the same number on all ranks. */
FOVEA_API fovea_status fovea_mpi_cache_add(fovea_mpi_cache *cache, int64_t *sequence);
FOVEA_API fovea_status fovea_mpi_cache_fork(fovea_mpi_cache *cache, int64_t sequence, int64_t *fork);
FOVEA_API fovea_status fovea_mpi_cache_remove(fovea_mpi_cache *cache, int64_t sequence);
FOVEA_API void fovea_mpi_cache_clear(fovea_mpi_cache *cache);
FOVEA_API fovea_status fovea_mpi_cache_truncate(fovea_mpi_cache *cache, int64_t sequence, int64_t length);
FOVEA_API fovea_status fovea_mpi_cache_evict(fovea_mpi_cache *cache, int64_t sequence, int64_t begin, int64_t end);

/* Appends. k and v have rows for all tokens on all ranks; a rank reads the rows of its own positions only.
 * FOVEA_ERROR_FULL if any rank lacks pages. In a layer with a window, pages before the window are freed after the
 * tokens are written. */
FOVEA_API fovea_status fovea_mpi_cache_append(fovea_mpi_cache *cache, const fovea_kv_append_args *append);

/* The number of tokens of a sequence in one layer, over all ranks. Local. */
FOVEA_API fovea_status fovea_mpi_cache_length(const fovea_mpi_cache *cache, int64_t layer, int64_t sequence,
                                              int64_t *length);

/* Pages and counts of this rank; token_bytes and sequences are those of the whole cache. Local. */
FOVEA_API fovea_status fovea_mpi_cache_stats(fovea_mpi_cache *cache, fovea_kv_stats *stats);

/* Attention over a cache, by a plan whose description has page_keys FOVEA_KV_PAGE_KEYS and the types and sizes of the
 * cache. Like fovea_mpi_attention_execute(), except for keys and values: k, v and args.cache are absent;
 * args.cache_layer and args.cache_sequences name them, the same on all ranks. Attention uses the first kv_lens[b] keys
 * of sequence b, or all without kv_lens; FOVEA_CAUSAL_BOTTOM_RIGHT aligns with the last of these.
 *   - Blocks have all key heads. Workspace and messages are those of the plan.
 *   - Errors: those of fovea_mpi_attention_execute(); those of keys in pages (fovea/attention.h): a sequence longer
 *     than the plan's kv_len or shorter than kv_lens[b], or a visible key that was freed before a window;
 *     FOVEA_ERROR_ARGUMENT if stripes or communicators of plan and cache differ. */
FOVEA_API fovea_status fovea_mpi_cache_attention(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache,
                                                 const fovea_attention_args *args, void *workspace,
                                                 size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif
