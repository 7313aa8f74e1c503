/* fovea_state_cache: random walks of appending, forks, ways back, saving and loading give the bits of one call over all
 * tokens; damaged bytes and wrong calls are refused; lengths agree with those of a cache of keys. */
#include "recurrence_case.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WALKS = 60, STEPS = 25, SLOTS = 4, PLACES = 6 };

typedef struct walker {
    const fovea_context *ctx;
    recurrence_case *c;
    char *want; /* the output of a call over all tokens, which begins with zeros */
    fovea_state_cache *cache;
    int64_t sequence[PLACES], length[PLACES], data[PLACES]; /* number, or -1; tokens; sequence of the case */
} walker;

static fovea_tensor out_tensor(const recurrence_case *c, void *data) {
    fovea_tensor out = c->tensor[T_OUT];
    out.data = data;
    return out;
}

static fovea_state_cache *make_cache(const recurrence_case *c) {
    const int64_t floats[2] = {7, recurrence_state_size(c)};
    fovea_state_cache_desc desc;
    fovea_state_cache *cache;
    fovea_state_cache_desc_init(&desc);
    desc.states = 2;
    desc.floats = floats;
    desc.max_sequences = PLACES;
    desc.slots = SLOTS;
    test_check(fovea_state_cache_create(&desc, &cache) == FOVEA_OK, "%s", fovea_error_detail());
    return cache;
}

/* Appends n tokens to one sequence, and compares outputs. */
static void append(walker *w, int place, int64_t n) {
    const recurrence_case *c = w->c;
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
    fovea_states states;
    fovea_states_init(&states);
    states.cache = w->cache;
    states.cache_state = 1;
    states.cache_sequences = &w->sequence[place];
    test_check(recurrence_call(w->ctx, c, w->data[place], w->length[place], n, out_tensor(c, out), &states, NULL, 0) ==
                   FOVEA_OK,
               "%s: %s", c->title, fovea_error_detail());
    const fovea_tensor *o = &c->tensor[T_OUT];
    const int64_t size = fv_dtype_size(o->dtype);
    for (int64_t h = 0; h < o->shape[1]; h++)
        for (int64_t t = w->length[place]; t < w->length[place] + n; t++) {
            const int64_t at = size * (w->data[place] * o->stride[0] + h * o->stride[1] + t * o->stride[2]);
            test_check(memcmp(out + at, w->want + at, (size_t)(size * o->shape[3])) == 0,
                       "%s: head %" PRId64 " of token %" PRId64 " has other bits", c->title, h, t);
        }
    w->length[place] += n;
    free(out);
}

static void reload(walker *w, int place) {
    size_t size, written;
    test_check(fovea_state_cache_save(w->cache, w->sequence[place], NULL, 0, &size) == FOVEA_OK, "%s",
               fovea_error_detail());
    char *bytes = must_alloc((int64_t)size, 1);
    test_check(fovea_state_cache_save(w->cache, w->sequence[place], bytes, size - 1, &written) == FOVEA_ERROR_WORKSPACE,
               "a byte less is enough");
    test_check(fovea_state_cache_save(w->cache, w->sequence[place], bytes, size, &written) == FOVEA_OK &&
                   written == size,
               "%s", fovea_error_detail());
    test_check(fovea_state_cache_remove(w->cache, w->sequence[place]) == FOVEA_OK, "%s", fovea_error_detail());
    int64_t other = 0;
    for (size_t i = 0; i < size; i += 1 + size / 50) { /* each changed byte is found, and nothing is lost */
        bytes[i] ^= 1;
        test_check(fovea_state_cache_load(w->cache, bytes, size, &other) != FOVEA_OK && other == -1, "byte %zu", i);
        bytes[i] ^= 1;
        test_check(fovea_state_cache_load(w->cache, bytes, i, &other) == FOVEA_ERROR_FILE && other == -1, "cut at %zu",
                   i);
    }
    test_check(fovea_state_cache_load(w->cache, bytes, size, &w->sequence[place]) == FOVEA_OK, "%s",
               fovea_error_detail());
    free(bytes);
}

static void step(walker *w, rng *r) {
    const int place = (int)rng_below(r, PLACES), other = (int)rng_below(r, PLACES);
    if (w->sequence[place] < 0) {
        test_check(fovea_state_cache_add(w->cache, &w->sequence[place]) == FOVEA_OK, "%s", fovea_error_detail());
        w->length[place] = 0;
        w->data[place] = rng_below(r, w->c->batch);
        return;
    }
    const int64_t left = w->c->tokens - w->length[place];
    int64_t back = rng_below(r, SLOTS), length = -1;
    switch (rng_below(r, 6)) {
    case 0:
        if (w->sequence[other] >= 0)
            break;
        test_check(fovea_state_cache_fork(w->cache, w->sequence[place], &w->sequence[other]) == FOVEA_OK, "%s",
                   fovea_error_detail());
        w->length[other] = w->length[place];
        w->data[other] = w->data[place];
        break;
    case 1:
        if (back > w->length[place])
            break;
        if (fovea_state_cache_truncate(w->cache, w->sequence[place], w->length[place] - back) == FOVEA_OK)
            w->length[place] -= back; /* it may have gone back before, and then has fewer states to go back to */
        else
            test_check(strstr(fovea_error_detail(), "no longer there") != NULL, "%s", fovea_error_detail());
        break;
    case 2: reload(w, place); break;
    case 3:
        test_check(fovea_state_cache_remove(w->cache, w->sequence[place]) == FOVEA_OK, "%s", fovea_error_detail());
        w->sequence[place] = -1;
        return;
    default:
        if (left > 0)
            append(w, place, rng_between(r, 1, rng_below(r, 2) ? left : 1));
    }
    test_check(fovea_state_cache_length(w->cache, 1, w->sequence[place], &length) == FOVEA_OK &&
                   length == w->length[place],
               "length %" PRId64 ", not %" PRId64, length, w->length[place]);
}

/* A cache and no sequences, of a case that has states and tokens; and its end. */
static walker walker_make(const fovea_context *ctx, recurrence kind, int64_t least_tokens, rng *r) {
    walker w = {.ctx = ctx, .c = recurrence_case_random(kind, r)};
    while (w.c->rows == 0 || w.c->tokens < least_tokens) { /* a convolution of one tap has no state */
        recurrence_case_free(w.c);
        w.c = recurrence_case_random(kind, r);
    }
    w.want = must_alloc(recurrence_bytes(w.c) + 1, 1);
    test_check(recurrence_call(ctx, w.c, -1, 0, w.c->tokens, out_tensor(w.c, w.want), NULL, NULL, 0) == FOVEA_OK, "%s",
               fovea_error_detail());
    w.cache = make_cache(w.c);
    for (int i = 0; i < PLACES; i++)
        w.sequence[i] = -1;
    return w;
}

static void walker_free(walker *w) {
    fovea_state_cache_destroy(w->cache);
    free(w->want);
    recurrence_case_free(w->c);
}

static void test_walk(const fovea_context *ctx, recurrence kind, rng *r) {
    walker w = walker_make(ctx, kind, 0, r);
    for (int i = 0; i < STEPS; i++)
        step(&w, r);
    walker_free(&w);
}

/* A step back by each number of tokens that slots allow, and by one more. */
static void test_back(const fovea_context *ctx, rng *r) {
    walker w = walker_make(ctx, DELTA, 2 * SLOTS, r);
    for (int64_t back = 0; back <= SLOTS; back++) {
        fovea_state_cache_add(w.cache, &w.sequence[0]);
        w.length[0] = 0;
        append(&w, 0, w.c->tokens);
        w.length[0] -= back;
        const fovea_status status = fovea_state_cache_truncate(w.cache, w.sequence[0], w.length[0]);
        test_check(status == (back < SLOTS ? FOVEA_OK : FOVEA_ERROR_ARGUMENT), "back by %" PRId64 ": %s", back,
                   fovea_error_detail());
        if (status == FOVEA_OK && back > 0)
            append(&w, 0, back);
        test_check(fovea_state_cache_truncate(w.cache, w.sequence[0], 0) == FOVEA_OK, "%s", fovea_error_detail());
        w.length[0] = 0;
        append(&w, 0, 2);
        fovea_state_cache_remove(w.cache, w.sequence[0]);
    }
    walker_free(&w);
}

/* Neither of two forks sees how the other goes on. */
static void test_fork(const fovea_context *ctx, rng *r) {
    walker w = walker_make(ctx, DELTA, 3 * SLOTS, r);
    fovea_state_cache_add(w.cache, &w.sequence[0]);
    append(&w, 0, SLOTS + 1);
    test_check(fovea_state_cache_fork(w.cache, w.sequence[0], &w.sequence[1]) == FOVEA_OK, "%s", fovea_error_detail());
    w.length[1] = w.length[0];
    append(&w, 0, 2 * SLOTS - 1);
    append(&w, 1, SLOTS);
    walker_free(&w);
}

static void test_refused(const fovea_context *ctx, rng *r) {
    recurrence_case *c = recurrence_case_random(DELTA, r);
    fovea_state_cache *cache = make_cache(c), *none = cache;
    fovea_state_cache_desc desc;
    fovea_states states;
    int64_t sequence, wanted[8];
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
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
    for (int i = 0; i < PLACES; i++)
        test_check(fovea_state_cache_add(cache, &wanted[i]) == FOVEA_OK, "%s", fovea_error_detail());
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
        check_status(#change, recurrence_call(ctx, c, -1, 0, c->tokens, out_tensor(c, out), &states, NULL, 0), status, \
                     words);                                                                                           \
        states = kept;                                                                                                 \
    } while (0)
    if (recurrence_state_size(c) != 7)
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
    keys_desc.kv_heads = keys_desc.head_dim = keys_desc.value_dim = keys_desc.max_pages = 1;
    int64_t sequence = 0, key_sequence = 0;
    test_check(fovea_state_cache_create(&desc, &cache) == FOVEA_OK &&
                   fovea_kv_cache_create(ctx, &keys_desc, &keys) == FOVEA_OK &&
                   fovea_state_cache_add(cache, &sequence) == FOVEA_OK &&
                   fovea_kv_cache_add(keys, &key_sequence) == FOVEA_OK,
               "%s", fovea_error_detail());
    test_check(fovea_state_cache_agrees(cache, sequence, keys, 1, key_sequence) == FOVEA_OK, "%s",
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
    fovea_state_cache_destroy(cache);
    fovea_kv_cache_destroy(keys);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "state_cache", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "state cache");
    for (int64_t i = test_scaled(WALKS); i > 0; i--)
        for (int kind = 0; kind < RECURRENCES; kind++)
            test_walk(i % 2 ? contexts.own : contexts.three, (recurrence)kind, &r);
    test_back(contexts.own, &r);
    for (int i = 0; i < 5; i++)
        test_fork(contexts.own, &r);
    test_refused(contexts.one, &r);
    test_agrees(contexts.one);
    contexts_free(&contexts);
    return test_end();
}
