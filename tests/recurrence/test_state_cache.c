/* fovea_state_cache: random walks of appending, forks, ways back, saving and loading give the bits of one call over all
 * tokens, and lose no block; damaged and forged bytes are refused. */
#include "recurrence/cache.h"
#include "recurrence_case.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WALKS = 60, STEPS = 25, SLOTS = 4, PLACES = 6, OTHER = 7 /* floats of the state that is not used */ };

typedef struct walker {
    const fovea_context *ctx;
    recurrence_case *c;
    char *want; /* the output of a call over all tokens, which begins with zeros */
    fovea_state_cache *cache;
    int64_t state;                                          /* the one that is used */
    int64_t sequence[PLACES], length[PLACES], data[PLACES]; /* number, or -1; tokens; sequence of the case */
} walker;

static fovea_tensor out_tensor(const recurrence_case *c, void *data) {
    fovea_tensor out = c->tensor[T_OUT];
    out.data = data;
    return out;
}

static fovea_state_cache *make_cache(const recurrence_case *c, int64_t state, int64_t slots) {
    int64_t floats[2] = {OTHER, OTHER};
    fovea_state_cache_desc desc;
    fovea_state_cache *cache;
    fovea_state_cache_desc_init(&desc);
    floats[state] = recurrence_state_size(c);
    desc.states = 2;
    desc.floats = floats;
    desc.max_sequences = PLACES;
    desc.slots = slots;
    test_check(fovea_state_cache_create(&desc, &cache) == FOVEA_OK, "%s", fovea_error_detail());
    return cache;
}

/* Each block is unused, or kept as often as it says. */
static void check_blocks(const fovea_state_cache *c) {
    for (int64_t i = 0; i < c->states; i++) {
        int64_t used = 0, references = 0, kept = 0;
        for (int64_t b = 0; b < c->blocks; b++) {
            used += c->pool[i].references[b] > 0;
            references += c->pool[i].references[b];
        }
        for (int64_t s = 0; s < c->max_sequences; s++)
            for (int64_t k = 0; k < c->slots && c->sequence[s].number >= 0; k++)
                kept += c->sequence[s].kept[i * c->slots + k].block >= 0;
        test_check(references == kept && used + c->pool[i].unused_count == c->blocks,
                   "state %" PRId64 ": %" PRId64 " references to %" PRId64 " blocks, %" PRId64 " kept, %" PRId64
                   " unused",
                   i, references, used, kept, c->pool[i].unused_count);
    }
}

/* Appends n tokens to one sequence, and compares outputs. */
static void append(walker *w, int place, int64_t n) {
    const recurrence_case *c = w->c;
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
    fovea_states states;
    fovea_states_init(&states);
    states.cache = w->cache;
    states.cache_state = w->state;
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
    check_blocks(w->cache);
    free(out);
}

/* A number of the head, of a state or of the first state kept (save.c) says something else; the checksum is right. */
static void check_forged(const walker *w, const char *bytes, size_t size) {
    enum { HEAD = 24, NUMBER = 8 };
    const int64_t used = HEAD + NUMBER * (3 * w->state), first = HEAD + 6 * NUMBER;
    const struct {
        int64_t at, more;
        fovea_status status;
        const char *words;
    } forged[] = {
        {NUMBER, 1, FOVEA_ERROR_VERSION, "version 2 of the format"},
        {NUMBER, INT64_C(1) << 32, FOVEA_ERROR_VERSION, "version 2 of the bits"},
        {2 * NUMBER, -1, FOVEA_ERROR_INCOMPATIBLE, "1 states were saved, but the cache has 2"},
        {used, -1, FOVEA_ERROR_INCOMPATIBLE, "but the cache has"},
        {used + NUMBER, 1, FOVEA_ERROR_FILE, "damaged"},  /* the last state is absent */
        {used + NUMBER, -1, FOVEA_ERROR_FILE, "damaged"}, /* a state is of later tokens */
        {used + 2 * NUMBER, 1, FOVEA_ERROR_FILE, "damaged"},
        {used + 2 * NUMBER, -1, FOVEA_ERROR_FILE, "damaged"},
        {first, -1, FOVEA_ERROR_FILE, "damaged"},
        {first, 1, FOVEA_ERROR_FILE, "damaged"},
    };
    char *made = must_alloc((int64_t)size, 1);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        int64_t number, other = 0;
        if (forged[i].at == first && size < (size_t)first + 2 * NUMBER) /* nothing is kept */
            continue;
        memcpy(made, bytes, size);
        memcpy(&number, made + forged[i].at, sizeof number);
        number += forged[i].more;
        memcpy(made + forged[i].at, &number, sizeof number);
        const uint64_t sum = fv_hash(FV_HASH_BEGIN, made, size - sizeof sum);
        memcpy(made + size - sizeof sum, &sum, sizeof sum);
        check_status(forged[i].words, fovea_state_cache_load(w->cache, made, size, &other), forged[i].status,
                     forged[i].words);
        test_check(other == -1, "forged %zu: a sequence", i);
    }
    free(made);
}

/* A cache with fewer slots goes on with what another has saved. */
static void check_fewer_slots(const walker *w, int place, const char *bytes, size_t size) {
    for (int64_t slots = 1; slots < SLOTS; slots++) {
        walker other = *w;
        other.cache = make_cache(w->c, w->state, slots);
        test_check(fovea_state_cache_load(other.cache, bytes, size, &other.sequence[place]) == FOVEA_OK, "%s",
                   fovea_error_detail());
        append(&other, place, other.length[place] < w->c->tokens);
        fovea_state_cache_destroy(other.cache);
    }
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
    check_forged(w, bytes, size);
    check_fewer_slots(w, place, bytes, size);
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
        check_status("removed", fovea_state_cache_length(w->cache, 1, w->sequence[place], &length),
                     FOVEA_ERROR_ARGUMENT, "there is no sequence");
        w->sequence[place] = -1;
        check_blocks(w->cache);
        return;
    default:
        if (left > 0)
            append(w, place, rng_between(r, 1, rng_below(r, 2) ? left : 1));
    }
    check_blocks(w->cache);
    for (int64_t state = 0; state < 2; state++) {
        const int64_t want = state == w->state ? w->length[place] : 0;
        test_check(fovea_state_cache_length(w->cache, state, w->sequence[place], &length) == FOVEA_OK && length == want,
                   "state %" PRId64 ": length %" PRId64 ", not %" PRId64, state, length, want);
    }
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
    w.state = rng_below(r, 2);
    w.cache = make_cache(w.c, w.state, SLOTS);
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
    append(&w, 1, 1); /* takes the place of the oldest state, which the other one goes back to */
    w.length[0] -= SLOTS - 1;
    test_check(fovea_state_cache_truncate(w.cache, w.sequence[0], w.length[0]) == FOVEA_OK, "%s", fovea_error_detail());
    append(&w, 0, 2 * SLOTS - 1);
    append(&w, 1, SLOTS);
    walker_free(&w);
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
    contexts_free(&contexts);
    return test_end();
}
