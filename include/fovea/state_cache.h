/* Fovea: a cache of the states of linear recurrences, for decoding. Part of fovea.h.
 *
 *     const int64_t floats[2] = {3 * 8192, 32 * 128 * 128};       a layer's convolution, and its delta rule
 *     fovea_state_cache_desc_init(&desc);
 *     desc.states = 2; desc.floats = floats; desc.max_sequences = 8; desc.slots = 5;
 *     fovea_state_cache_create(&desc, &cache);
 *     fovea_state_cache_add(cache, &sequence);
 *     for each token or chunk of a prompt, and each state:
 *         states.cache = cache; states.cache_state = ...; states.cache_sequences = &sequence;
 *         args.states = &states;
 *         fovea_gated_delta_rule(ctx, &args, NULL, 0);
 *     fovea_state_cache_truncate(cache, sequence, length);        takes back up to slots - 1 tokens
 *
 * A call reads the states that its sequences have, and leaves those after its tokens. States are float32, so that
 * results have the bits of one call over all tokens. */
#ifndef FOVEA_STATE_CACHE_H
#define FOVEA_STATE_CACHE_H

#include "cache.h"
#include "recurrence.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_state_cache_desc {
    size_t struct_size;
    int64_t states;        /* >= 1: of all layers; a convolution's is one, too */
    const int64_t *floats; /* [states]: heads * rows * columns of each, >= 1. Copied */
    int64_t max_sequences; /* >= 1 */
    /* From 1 to 1024, default 1. The states after the last `slots` tokens are kept, so that a sequence can go back by
     * slots - 1. */
    int64_t slots;
} fovea_state_cache_desc;
FOVEA_DEFINE_INIT(fovea_state_cache_desc_init, fovea_state_cache_desc, FOVEA_STRUCT_STATE_CACHE_DESC)

/* Creates a cache without sequences. Takes the address space of all states at once; the system provides memory when a
 * state is first written. FOVEA_ERROR_SHAPE, _OVERFLOW, _VERSION, _OUT_OF_MEMORY. Thread-safe.
 *
 * Calls on different sequences may run at once. While one thread changes a sequence, no other may use it. */
FOVEA_API fovea_status fovea_state_cache_create(const fovea_state_cache_desc *desc, fovea_state_cache **cache);

/* Frees a cache with all its sequences. No thread may be using it. */
FOVEA_API void fovea_state_cache_destroy(fovea_state_cache *cache);

/* Adds a sequence without tokens, whose states are zeros. Numbers are never used again. FOVEA_ERROR_FULL,
 * _OUT_OF_MEMORY. After an error *sequence is -1. */
FOVEA_API fovea_status fovea_state_cache_add(fovea_state_cache *cache, int64_t *sequence);

/* Adds a sequence with the states of another. Both share them until one goes on: nothing is copied.
 * FOVEA_ERROR_ARGUMENT, _FULL, _OUT_OF_MEMORY. After an error *fork is -1. */
FOVEA_API fovea_status fovea_state_cache_fork(fovea_state_cache *cache, int64_t sequence, int64_t *fork);

/* Removes a sequence. FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_state_cache_remove(fovea_state_cache *cache, int64_t sequence);

/* *length = how many tokens a state of a sequence has seen. FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_state_cache_length(fovea_state_cache *cache, int64_t state, int64_t sequence,
                                                int64_t *length);

/* FOVEA_OK if all states of a sequence and all layers of a sequence of a cache of keys have the same length, else
 * FOVEA_ERROR_INCOMPATIBLE. layers: of the cache of keys; keys NULL and layers 0: states alone. FOVEA_ERROR_NULL,
 * _ARGUMENT. */
FOVEA_API fovea_status fovea_state_cache_agrees(fovea_state_cache *cache, int64_t sequence, fovea_kv_cache *keys,
                                                int64_t layers, int64_t key_sequence);

/* Takes back the last tokens: all states have seen at most length. FOVEA_ERROR_ARGUMENT if a state of that length is no
 * longer there (length 0 is always legal), _SHAPE (length below 0): nothing has changed. */
FOVEA_API fovea_status fovea_state_cache_truncate(fovea_state_cache *cache, int64_t sequence, int64_t length);

/* Writes a sequence with all states that it can go back to into data[size], with a checksum. *needed = its size in
 * bytes. data NULL asks for the size alone. FOVEA_ERROR_WORKSPACE if size is too small, _ARGUMENT. */
FOVEA_API fovea_status fovea_state_cache_save(fovea_state_cache *cache, int64_t sequence, void *data, size_t size,
                                              size_t *needed);

/* Adds a saved sequence. data is untrusted input. FOVEA_ERROR_FILE if it is not a saved sequence, truncated or damaged;
 * _VERSION if a newer library wrote it, or one of another FOVEA_BITS_VERSION; _INCOMPATIBLE if its cache had other
 * states; _FULL, _OUT_OF_MEMORY. After an error *sequence is -1. */
FOVEA_API fovea_status fovea_state_cache_load(fovea_state_cache *cache, const void *data, size_t size,
                                              int64_t *sequence);

#ifdef __cplusplus
}
#endif
#endif
