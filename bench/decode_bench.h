/* Shared by decode.c, which times decoding, and decode_cache.c, which makes its cache. */
#ifndef BENCH_DECODE_BENCH_H
#define BENCH_DECODE_BENCH_H

#include <stdbool.h>

#include "bench.h"

/* Tokens that a sequence can grow by before it is cut back; layers of a call, and of a cache, at most. */
enum { DECODE_ROOM = 256, DECODE_MOST_LAYERS = 256, DECODE_MOST_SETS = 4096 };

typedef enum decode_call { DECODE_ATTENTION, DECODE_APPEND, DECODE_STEP } decode_call;

typedef struct decode {
    bench base;
    fovea_attention_desc desc;
    int64_t layers, prefix;
    int64_t keys, values; /* sources, as words of bench_keys_words; 0: the default */
    decode_call call;
    double read_speed; /* bytes per second, by bench_read_speed() */
    /* From begin to end. */
    fovea_attention_plan *plan;
    fovea_kv_cache *cache; /* [sets * layers] layers */
    int64_t sets;
    int64_t *sequences, *lens; /* [batch] */
    void *numbers;             /* of desc.dtype: keys and values before they are appended */
    int64_t number_count;
    fovea_attention_args args;
    void *workspace;
    size_t workspace_size;
    int64_t runs; /* since sequences had kv_len tokens */
} decode;

/* How many times as fast as floats the keys' type is multiplied. */
double decode_key_rate(const decode *self);

/* Bytes of a token and kv head, and of all keys and values that a call sees. */
double decode_token_bytes(const decode *self);
double decode_set_bytes(const decode *self);

/* A cache with kv_len tokens of each sequence in all layers of all sets, and self->sets, sequences, lens, numbers;
 * NULL, or what is wrong. */
const char *decode_make_cache(decode *self);

/* Appends tokens to a layer of count sequences: the numbers from one on. */
fovea_status decode_append(const decode *self, fovea_kv_cache *cache, int64_t layer, int64_t count,
                           const int64_t *sequences, int64_t from, int64_t tokens);

/* Is a sequence with one append in each layer of the first set, saved, the same as the scalar tier's? NULL, or what is
 * wrong. */
const char *decode_check_append(decode *self);

#endif
