/* Caches for tests: a small model's shape, tokens whose keys and values follow from a number, shadows of what sequences
 * of a cache hold, and what attention over a shadow gives from contiguous tensors on the scalar tier. */
#ifndef FOVEA_TESTS_CACHE_CASE_H
#define FOVEA_TESTS_CACHE_CASE_H

#include "attention_case.h"
#include "test.h"

enum {
    CACHE_LAYERS = 2,
    CACHE_KV_HEADS = 2,
    CACHE_Q_HEADS = 6,
    CACHE_DIM = 24,
    CACHE_VALUES = 40,
    CACHE_LONGEST = 1100
};

typedef struct cache_case {
    const fovea_context *ctx, *scalar;
    fovea_dtype q_dtype, k_dtype, v_dtype;
    fovea_arithmetic arithmetic;
    int64_t windows[CACHE_LAYERS]; /* -1: none */
    const fovea_rope *rope;
    int64_t max_pages;
    bool offsets;              /* causality says its last rows by q_offsets; default: FOVEA_CAUSAL_BOTTOM_RIGHT */
    fovea_placement placement; /* of pages; default: none */
    unsigned features;         /* bit i: feature i of case_feature(), of those that are no masks; default 0 */
    const fv_attention_choice *choice; /* of what is checked; NULL: the planner's */
} cache_case;

enum { /* of cache_case.features */
       CACHE_SOFTCAP = 1,
       CACHE_SINKS = 2,
       CACHE_BIAS = 4,
       CACHE_ALIBI = 16,
       CACHE_TOEPLITZ = 32,
       CACHE_T5 = 64
};

/* The tokens that a sequence should hold. */
typedef struct shadow {
    int64_t number, length;
    int32_t token[CACHE_LONGEST];
    uint8_t attended[CACHE_LONGEST]; /* 0: evicted */
} shadow;

/* A case of float32 without windows. */
cache_case cache_case_make(const fovea_context *ctx, const fovea_context *scalar);

fovea_kv_cache *cache_make(const cache_case *c);

/* A new sequence, or a fork of one; the caller frees its shadow. */
shadow *cache_add(fovea_kv_cache *cache);
shadow *cache_fork(fovea_kv_cache *cache, const shadow *from);

fovea_kv_stats cache_stats(fovea_kv_cache *cache);

/* A sequence as saved bytes, which the caller frees. */
char *cache_save(fovea_kv_cache *cache, const shadow *s, size_t *size);

/* Makes the checksum of a saved sequence right again after its bytes were changed. */
void cache_seal(char *data, size_t size);

/* Appends tokens to all layers of sequences, and to their shadows; fails as a whole or not at all. */
fovea_status cache_append(fovea_kv_cache *cache, shadow *const *sequences, int64_t count, const int64_t *tokens,
                          int32_t first_token);

/* One token of ones to a layer, unknown to the shadow. */
fovea_status cache_append_one(fovea_kv_cache *cache, const shadow *s, int64_t layer);

/* Queries and outputs of `rows` last tokens of a sequence: [CACHE_Q_HEADS][rows][channels]. */
void cache_queries(const shadow *s, int64_t layer, int64_t rows, float *q);

/* The description of a layer's attention, and queries as elements of their type, in place. */
fovea_attention_desc cache_desc(const cache_case *c, int64_t layer, int64_t batch, int64_t rows, int64_t keys);
void cache_narrow(const cache_case *c, float *q, int64_t n);

/* Keys or values of a shadow as one tensor [CACHE_KV_HEADS][length][channels] of their type, rotated. */
void *cache_rows(const cache_case *c, const shadow *s, int64_t layer, bool values);

/* From contiguous memory, or with integers as keys or values from a cache in which the tokens were put at once, by the
 * scalar tier: out [CACHE_Q_HEADS][rows][CACHE_VALUES] of the last rows. */
void cache_want(const cache_case *c, const shadow *s, int64_t layer, int64_t rows, float *out);

/* From the cache, all sequences in one call; and checks it against cache_want() by bits. Returns the groups of
 * sequences whose common pages were read once. */
int64_t cache_check(const cache_case *c, fovea_kv_cache *cache, shadow *const *sequences, int64_t count, int64_t rows,
                    const char *what);

#endif
