/* Calls of fovea_state_cache that are refused: a sentence, and nothing changed; lengths agree with those of a cache of
 * keys. */
#include "recurrence_case.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PLACES = 6, OTHER = 7 /* floats of the state that is not used */ };

static fovea_state_cache *make_cache(const recurrence_case *c) {
    const int64_t floats[2] = {OTHER, recurrence_state_size(c)};
    fovea_state_cache_desc desc;
    fovea_state_cache *cache;
    fovea_state_cache_desc_init(&desc);
    desc.states = 2;
    desc.floats = floats;
    desc.max_sequences = PLACES;
    desc.slots = 4;
    test_check(fovea_state_cache_create(&desc, &cache) == FOVEA_OK, "%s", fovea_error_detail());
    return cache;
}

static void test_refused(const fovea_context *ctx, rng *r) {
    recurrence_case *c = recurrence_case_random(DELTA, r);
    fovea_state_cache *cache = make_cache(c), *none = cache;
    fovea_state_cache_desc desc;
    fovea_states states;
    int64_t sequence, wanted[8];
    fovea_tensor to = c->tensor[T_OUT];
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
    to.data = out;
    fovea_state_cache_desc_init(&desc);
    desc.states = 0;
    desc.floats = wanted;
    desc.max_sequences = 1;
    check_status("no states", fovea_state_cache_create(&desc, &none), FOVEA_ERROR_SHAPE, "0 states");
    test_check(none == NULL, "a cache after an error");
    desc.states = 1;
    wanted[0] = 0;
    check_status("no floats", fovea_state_cache_create(&desc, &none), FOVEA_ERROR_SHAPE, "floats[0] is 0");
    wanted[0] = 1;
    desc.slots = 0;
    check_status("no slots", fovea_state_cache_create(&desc, &none), FOVEA_ERROR_SHAPE, "0 slots");
    desc.slots = 1;
    desc.max_sequences = INT64_MAX / 4;
    check_status("too many", fovea_state_cache_create(&desc, &none), FOVEA_ERROR_OVERFLOW, "too many");
    test_check(fovea_state_cache_add(cache, &sequence) == FOVEA_OK &&
                   fovea_state_cache_remove(cache, sequence) == FOVEA_OK,
               "%s", fovea_error_detail());
    for (int i = 0; i < PLACES; i++)
        test_check(fovea_state_cache_add(cache, &wanted[i]) == FOVEA_OK && wanted[i] != sequence,
                   "sequence %" PRId64 ": %s", wanted[i], fovea_error_detail());
    check_status("full", fovea_state_cache_add(cache, &sequence), FOVEA_ERROR_FULL, "all of its 6 sequences");
    check_status("full fork", fovea_state_cache_fork(cache, wanted[0], &sequence), FOVEA_ERROR_FULL, "all of its 6");
    check_status("unknown", fovea_state_cache_remove(cache, 99), FOVEA_ERROR_ARGUMENT, "no sequence 99");
    check_status("negative", fovea_state_cache_truncate(cache, wanted[0], -1), FOVEA_ERROR_SHAPE, "length is -1");
    check_status("no state 2", fovea_state_cache_length(cache, 2, wanted[0], &sequence), FOVEA_ERROR_ARGUMENT,
                 "state 2 is not one of the cache's 2");
    fovea_states_init(&states);
    states.cache = cache;
    states.cache_sequences = wanted;
#define REFUSED(status, words, change)                                                                                 \
    do {                                                                                                               \
        const fovea_states kept = states;                                                                              \
        change;                                                                                                        \
        check_status(#change, recurrence_call(ctx, c, -1, 0, c->tokens, to, &states, NULL, 0), status, words);         \
        states = kept;                                                                                                 \
    } while (0)
    if (recurrence_state_size(c) != OTHER)
        REFUSED(FOVEA_ERROR_SHAPE, "state 0 of the cache has 7 floats", states.cache_state = 0);
    states.cache_state = 1;
    REFUSED(FOVEA_ERROR_ARGUMENT, "state 2 is not", states.cache_state = 2);
    REFUSED(FOVEA_ERROR_NULL, "cache_sequences is NULL", states.cache_sequences = NULL);
    REFUSED(FOVEA_ERROR_ARGUMENT, "a cache and tensors or slots", states.slots = 2);
    wanted[0] = 77;
    REFUSED(FOVEA_ERROR_ARGUMENT, "no sequence 77", (void)0);
    if (c->batch > 1) {
        wanted[0] = wanted[1];
        REFUSED(FOVEA_ERROR_ARGUMENT, "named twice", (void)0);
    }
#undef REFUSED
    test_check(fovea_state_cache_length(cache, 1, wanted[1], &sequence) == FOVEA_OK && sequence == 0,
               "a refused call has changed a length");
    free(out);
    fovea_state_cache_destroy(cache);
    recurrence_case_free(c);
}

/* Lengths agree, or a sentence says which do not. */
static void test_agrees(const fovea_context *ctx) {
    enum { FLOATS = 6 };
    const int64_t floats[2] = {FLOATS, FLOATS};
    float x[FLOATS] = {1, 2, 3, 4, 5, 6}, y[FLOATS];
    fovea_state_cache_desc desc;
    fovea_kv_cache_desc keys_desc;
    fovea_state_cache *cache = NULL;
    fovea_kv_cache *keys = NULL;
    fovea_state_cache_desc_init(&desc);
    desc.states = 2;
    desc.floats = floats;
    desc.max_sequences = 1;
    fovea_kv_cache_desc_init(&keys_desc);
    keys_desc.kv_heads = keys_desc.head_dim = keys_desc.value_dim = 1;
    keys_desc.layers = keys_desc.max_pages = 2;
    int64_t sequence = 0, key_sequence = 0;
    test_check(fovea_state_cache_create(&desc, &cache) == FOVEA_OK &&
                   fovea_kv_cache_create(ctx, &keys_desc, &keys) == FOVEA_OK &&
                   fovea_state_cache_add(cache, &sequence) == FOVEA_OK &&
                   fovea_kv_cache_add(keys, &key_sequence) == FOVEA_OK,
               "%s", fovea_error_detail());
    test_check(fovea_state_cache_agrees(cache, sequence, keys, 2, key_sequence) == FOVEA_OK, "%s",
               fovea_error_detail());
    check_status("no layer", fovea_state_cache_agrees(cache, sequence, keys, 0, key_sequence), FOVEA_ERROR_ARGUMENT,
                 "layers is 0");
    test_check(fovea_state_cache_agrees(cache, sequence, NULL, 0, 0) == FOVEA_OK, "states alone: %s",
               fovea_error_detail());
    fovea_states states;
    fovea_conv_args args;
    fovea_states_init(&states);
    fovea_conv_args_init(&args);
    states.cache = cache;
    states.cache_sequences = &sequence;
    args.taps = 2;
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 1, FLOATS);
    args.out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, 1, FLOATS);
    float both[2 * FLOATS] = {0};
    args.weight = both;
    args.states = &states;
    test_check(fovea_causal_conv(ctx, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    check_status("one state", fovea_state_cache_agrees(cache, sequence, keys, 1, key_sequence),
                 FOVEA_ERROR_INCOMPATIBLE, "state 1 has seen 0 tokens, but state 0 1");
    states.cache_state = 1;
    test_check(fovea_causal_conv(ctx, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    check_status("keys", fovea_state_cache_agrees(cache, sequence, keys, 1, key_sequence), FOVEA_ERROR_INCOMPATIBLE,
                 "layer 0 has 0 tokens of keys, but states have seen 1");
    fovea_kv_append_args append;
    fovea_kv_append_args_init(&append);
    append.count = 1;
    append.sequences = &key_sequence;
    append.k = append.v = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    test_check(fovea_kv_cache_append(keys, &append) == FOVEA_OK, "%s", fovea_error_detail());
    check_status("a layer", fovea_state_cache_agrees(cache, sequence, keys, 2, key_sequence), FOVEA_ERROR_INCOMPATIBLE,
                 "layer 1 has 0 tokens of keys, but states have seen 1");
    args.taps = 1; /* no state: the cache stays as it is */
    int64_t length = 0;
    test_check(fovea_causal_conv(ctx, &args, NULL, 0) == FOVEA_OK &&
                   fovea_state_cache_length(cache, 1, sequence, &length) == FOVEA_OK && length == 1,
               "one tap: %s, length %" PRId64, fovea_error_detail(), length);
    fovea_state_cache_destroy(cache);
    fovea_kv_cache_destroy(keys);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "state_cache_errors", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "state cache");
    for (int i = 0; i < 4; i++)
        test_refused(contexts.one, &r);
    test_agrees(contexts.one);
    contexts_free(&contexts);
    return test_end();
}
