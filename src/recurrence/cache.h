/* The inside of a cache of states (cache.c, save.c). */
#ifndef FV_STATE_CACHE_H
#define FV_STATE_CACHE_H

#include "cache/cache.h"

/* A state after `length` tokens; block -1: none. */
typedef struct fv_kept_state {
    int64_t length;
    int32_t block;
} fv_kept_state;

typedef struct fv_state_sequence {
    int64_t number;        /* -1: the place is free */
    int64_t *length;       /* [states] */
    fv_kept_state *kept;   /* [states][slots]: the state after n tokens is at n % slots */
    fv_kept_state *source; /* [states]: during a call, the state that it reads */
} fv_state_sequence;

/* Memory of one state of all sequences, in blocks. */
typedef struct fv_state_pool {
    float *memory;
    int64_t floats, step;         /* of a block, from one to the next */
    int32_t *references, *unused; /* [blocks] */
    int64_t unused_count;
} fv_state_pool;

struct fovea_state_cache {
    fv_mutex lock;
    fv_fork_lock forks;
    int64_t states, slots, max_sequences, blocks, next_number;
    fv_state_pool *pool;         /* [states] */
    fv_state_sequence *sequence; /* [max_sequences] */
};

/* NULL, with a failure, if there is no such sequence. */
fv_state_sequence *fv_state_sequence_find(fovea_state_cache *cache, int64_t number);

/* A new sequence; NULL with a failure: the cache is full. */
fv_state_sequence *fv_state_sequence_new(fovea_state_cache *cache);

fv_kept_state *fv_state_kept(const fovea_state_cache *cache, const fv_state_sequence *s, int64_t state, int64_t length);
float *fv_state_floats(const fovea_state_cache *cache, int64_t state, int32_t block);

/* A block of a state of its own for what is kept there. */
void fv_state_take(fovea_state_cache *cache, int64_t state, fv_kept_state *kept, int32_t source);

#endif
