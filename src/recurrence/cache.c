/* A cache of states (fovea/state_cache.h). A sequence keeps the states after its last tokens, each in a block of a
 * pool. Forks share blocks by reference. A call writes whole states, so that a shared block is left and never copied.
 * A sequence has at most `slots` blocks of a state, and one more during a call, which reads it: a pool has as many.
 */
#include "recurrence/cache.h"

#include "recurrence/recurrence.h"

#include <stdlib.h>
#include <string.h>

static const int64_t most_slots = 1024, floats_of_line = FV_ALIGNMENT / (int64_t)sizeof(float);

/* ----------------------------------------------------------------------------------------------------- creation -- */

static fovea_status check_desc(const fovea_state_cache_desc *d) {
    int64_t blocks, all;
    if (!d->floats)
        return fv_fail(FOVEA_ERROR_NULL, "desc.floats is NULL");
    if (d->states < 1 || d->max_sequences < 1 || d->slots < 1 || d->slots > most_slots)
        return fv_fail(
            FOVEA_ERROR_SHAPE,
            "a cache of %lld states of %lld sequences with %lld slots: all must be at least 1, slots at most "
            "%lld",
            (long long)d->states, (long long)d->max_sequences, (long long)d->slots, (long long)most_slots);
    if (!fv_multiply(d->max_sequences, d->slots + 1, &blocks) || blocks > INT32_MAX || d->states > INT32_MAX ||
        !fv_multiply(blocks, d->states, &all))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld sequences of %lld states are too many", (long long)d->max_sequences,
                       (long long)d->states);
    for (int64_t i = 0; i < d->states; i++)
        if (d->floats[i] < 1 || d->floats[i] > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_SHAPE, "floats[%lld] is %lld", (long long)i, (long long)d->floats[i]);
    return FOVEA_OK;
}

static bool make_pool(fv_state_pool *pool, int64_t floats, int64_t blocks) {
    int64_t bytes;
    pool->floats = floats;
    pool->step = fv_round_up(floats, floats_of_line);
    if (!fv_multiply(pool->step * (int64_t)sizeof(float), blocks, &bytes))
        return false;
    pool->memory = fv_allocate_pages((size_t)bytes);
    pool->references = calloc((size_t)blocks, sizeof *pool->references);
    pool->unused = malloc((size_t)blocks * sizeof *pool->unused);
    if (!pool->memory || !pool->references || !pool->unused)
        return false;
    for (int64_t i = 0; i < blocks; i++)
        pool->unused[i] = (int32_t)(blocks - 1 - i);
    pool->unused_count = blocks;
    return true;
}

static bool make_sequence(const fovea_state_cache *c, fv_state_sequence *s) {
    s->number = -1;
    s->length = malloc((size_t)c->states * sizeof *s->length);
    s->kept = malloc((size_t)(c->states * c->slots) * sizeof *s->kept);
    s->source = malloc((size_t)c->states * sizeof *s->source);
    return s->length && s->kept && s->source;
}

fovea_status fovea_state_cache_create(const fovea_state_cache_desc *given, fovea_state_cache **cache) {
    fovea_state_cache_desc d;
    if (!cache || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", cache ? "desc" : "cache");
    *cache = NULL;
    fovea_state_cache_desc_init(&d);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_state_cache_desc), given, &d);
    if (status == FOVEA_OK)
        status = check_desc(&d);
    if (status != FOVEA_OK)
        return status;
    fovea_state_cache *c = calloc(1, sizeof *c);
    bool made = c && fv_mutex_init(&c->lock);
    if (c && !made) {
        free(c);
        c = NULL;
    }
    if (made) {
        fv_fork_enlist(&c->forks, &c->lock);
        c->slots = d.slots;
        c->blocks = d.max_sequences * (d.slots + 1);
        c->pool = calloc((size_t)d.states, sizeof *c->pool);
        c->sequence = calloc((size_t)d.max_sequences, sizeof *c->sequence);
        c->states = c->pool ? d.states : 0;
        c->max_sequences = c->sequence ? d.max_sequences : 0;
        made = c->pool && c->sequence;
        for (int64_t i = 0; made && i < d.states; i++)
            made = make_pool(&c->pool[i], d.floats[i], c->blocks);
        for (int64_t i = 0; made && i < d.max_sequences; i++)
            made = make_sequence(c, &c->sequence[i]);
    }
    if (!made) {
        fovea_state_cache_destroy(c);
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a cache of states");
    }
    *cache = c;
    return FOVEA_OK;
}

void fovea_state_cache_destroy(fovea_state_cache *c) {
    if (!c)
        return;
    fv_fork_delist(&c->forks);
    for (int64_t i = 0; i < c->states; i++) {
        fv_free_pages(c->pool[i].memory);
        free(c->pool[i].references);
        free(c->pool[i].unused);
    }
    for (int64_t i = 0; i < c->max_sequences; i++) {
        free(c->sequence[i].length);
        free(c->sequence[i].kept);
        free(c->sequence[i].source);
    }
    free(c->pool);
    free(c->sequence);
    fv_mutex_destroy(&c->lock);
    free(c);
}

/* ------------------------------------------------------------------------------------------------------- blocks -- */

fv_kept_state *fv_state_kept(const fovea_state_cache *c, const fv_state_sequence *s, int64_t state, int64_t length) {
    return &s->kept[state * c->slots + length % c->slots];
}

float *fv_state_floats(const fovea_state_cache *c, int64_t state, int32_t block) {
    return c->pool[state].memory + block * c->pool[state].step;
}

static void release(fovea_state_cache *c, int64_t state, int32_t block) {
    fv_state_pool *pool = &c->pool[state];
    if (block >= 0 && --pool->references[block] == 0)
        pool->unused[pool->unused_count++] = block;
}

void fv_state_take(fovea_state_cache *c, int64_t state, fv_kept_state *kept, int32_t source) {
    fv_state_pool *pool = &c->pool[state];
    if (kept->block >= 0 && pool->references[kept->block] == 1 + (kept->block == source))
        return; /* it is read before it is written, head by head */
    release(c, state, kept->block);
    kept->block = pool->unused[--pool->unused_count];
    pool->references[kept->block] = 1;
}

/* ---------------------------------------------------------------------------------------------------- sequences -- */

fv_state_sequence *fv_state_sequence_find(fovea_state_cache *c, int64_t number) {
    for (int64_t i = 0; number >= 0 && i < c->max_sequences; i++)
        if (c->sequence[i].number == number)
            return &c->sequence[i];
    fv_fail(FOVEA_ERROR_ARGUMENT, "there is no sequence %lld in this cache of states", (long long)number);
    return NULL;
}

fv_state_sequence *fv_state_sequence_new(fovea_state_cache *c) {
    for (int64_t i = 0; i < c->max_sequences; i++) {
        fv_state_sequence *s = &c->sequence[i];
        if (s->number >= 0)
            continue;
        s->number = c->next_number++;
        memset(s->length, 0, (size_t)c->states * sizeof *s->length);
        for (int64_t k = 0; k < c->states * c->slots; k++)
            s->kept[k] = (fv_kept_state){0, -1};
        return s;
    }
    fv_fail(FOVEA_ERROR_FULL, "the cache has all of its %lld sequences", (long long)c->max_sequences);
    return NULL;
}

fovea_status fovea_state_cache_add(fovea_state_cache *c, int64_t *sequence) {
    if (!c || !sequence)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "sequence" : "cache");
    fv_mutex_lock(&c->lock);
    const fv_state_sequence *s = fv_state_sequence_new(c);
    *sequence = s ? s->number : -1;
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_FULL;
}

fovea_status fovea_state_cache_fork(fovea_state_cache *c, int64_t sequence, int64_t *fork) {
    if (!c || !fork)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "fork" : "cache");
    *fork = -1;
    fv_mutex_lock(&c->lock);
    const fv_state_sequence *from = fv_state_sequence_find(c, sequence);
    fv_state_sequence *to = from ? fv_state_sequence_new(c) : NULL;
    if (to) {
        memcpy(to->length, from->length, (size_t)c->states * sizeof *to->length);
        memcpy(to->kept, from->kept, (size_t)(c->states * c->slots) * sizeof *to->kept);
        for (int64_t k = 0; k < c->states * c->slots; k++)
            if (to->kept[k].block >= 0)
                c->pool[k / c->slots].references[to->kept[k].block]++;
        *fork = to->number;
    }
    fv_mutex_unlock(&c->lock);
    return !from ? FOVEA_ERROR_ARGUMENT : to ? FOVEA_OK : FOVEA_ERROR_FULL;
}

fovea_status fovea_state_cache_remove(fovea_state_cache *c, int64_t sequence) {
    if (!c)
        return fv_fail(FOVEA_ERROR_NULL, "cache is NULL");
    fv_mutex_lock(&c->lock);
    fv_state_sequence *s = fv_state_sequence_find(c, sequence);
    for (int64_t k = 0; s && k < c->states * c->slots; k++)
        release(c, k / c->slots, s->kept[k].block);
    if (s)
        s->number = -1;
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
}

fovea_status fovea_state_cache_length(fovea_state_cache *c, int64_t state, int64_t sequence, int64_t *length) {
    if (!c || !length)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "length" : "cache");
    if (state < 0 || state >= c->states)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "state %lld is not one of the cache's %lld", (long long)state,
                       (long long)c->states);
    fv_mutex_lock(&c->lock);
    const fv_state_sequence *s = fv_state_sequence_find(c, sequence);
    if (s)
        *length = s->length[state];
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
}

fovea_status fovea_state_cache_agrees(fovea_state_cache *c, int64_t sequence, fovea_kv_cache *keys, int64_t layers,
                                      int64_t key_sequence) {
    if (layers < 0 || (layers == 0 && keys))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "layers is %lld", (long long)layers);
    int64_t length = 0, first = 0;
    fovea_status status = fovea_state_cache_length(c, 0, sequence, &first);
    for (int64_t i = 1; status == FOVEA_OK && i < c->states; i++) {
        status = fovea_state_cache_length(c, i, sequence, &length);
        if (status == FOVEA_OK && length != first)
            return fv_fail(FOVEA_ERROR_INCOMPATIBLE, "state %lld has seen %lld tokens, but state 0 %lld", (long long)i,
                           (long long)length, (long long)first);
    }
    for (int64_t layer = 0; status == FOVEA_OK && layer < layers; layer++) {
        status = fovea_kv_cache_length(keys, layer, key_sequence, &length);
        if (status == FOVEA_OK && length != first)
            return fv_fail(FOVEA_ERROR_INCOMPATIBLE, "layer %lld has %lld tokens of keys, but states have seen %lld",
                           (long long)layer, (long long)length, (long long)first);
    }
    return status;
}

fovea_status fovea_state_cache_truncate(fovea_state_cache *c, int64_t sequence, int64_t length) {
    if (!c)
        return fv_fail(FOVEA_ERROR_NULL, "cache is NULL");
    if (length < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "length is %lld", (long long)length);
    fv_mutex_lock(&c->lock);
    fv_state_sequence *s = fv_state_sequence_find(c, sequence);
    fovea_status status = s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
    for (int64_t i = 0; status == FOVEA_OK && i < c->states; i++) {
        const fv_kept_state *kept = fv_state_kept(c, s, i, length);
        if (length > 0 && length < s->length[i] && (kept->block < 0 || kept->length != length))
            status = fv_fail(FOVEA_ERROR_ARGUMENT,
                             "state %lld after %lld of %lld tokens is no longer there: the cache keeps the last %lld",
                             (long long)i, (long long)length, (long long)s->length[i], (long long)c->slots);
    }
    for (int64_t i = 0; status == FOVEA_OK && i < c->states; i++) {
        s->length[i] = fv_min(s->length[i], length);
        for (int64_t k = i * c->slots; k < (i + 1) * c->slots; k++)
            if (s->kept[k].block >= 0 && s->kept[k].length > s->length[i]) {
                release(c, i, s->kept[k].block);
                s->kept[k] = (fv_kept_state){0, -1};
            }
    }
    fv_mutex_unlock(&c->lock);
    return status;
}

/* -------------------------------------------------------------------------------------------------------- calls -- */

fovea_status fv_state_cache_check(const fv_sequences *q) {
    fovea_state_cache *c = q->given.cache;
    const int64_t state = q->given.cache_state, floats = q->heads * q->rows * q->columns;
    if (q->given.before.data || q->given.after.data || q->given.slots != 1)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "states has a cache and tensors or slots; give one of them");
    if (!q->given.cache_sequences && q->count > 0)
        return fv_fail(FOVEA_ERROR_NULL, "states.cache_sequences is NULL");
    if (state < 0 || state >= c->states)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "state %lld is not one of the cache's %lld", (long long)state,
                       (long long)c->states);
    if (c->pool[state].floats != floats)
        return fv_fail(FOVEA_ERROR_SHAPE, "state %lld of the cache has %lld floats, but this call's have %lld",
                       (long long)state, (long long)c->pool[state].floats, (long long)floats);
    fv_mutex_lock(&c->lock);
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; status == FOVEA_OK && i < q->count; i++) {
        const int64_t number = q->given.cache_sequences[i];
        status = fv_state_sequence_find(c, number) ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
        for (int64_t k = 0; status == FOVEA_OK && k < i; k++)
            if (q->given.cache_sequences[k] == number)
                status = fv_fail(FOVEA_ERROR_ARGUMENT, "sequence %lld is named twice", (long long)number);
    }
    fv_mutex_unlock(&c->lock);
    return status;
}

int64_t fv_state_cache_slots(const fovea_state_cache *c) { return c->slots; }

void fv_state_cache_begin(const fv_sequences *q) {
    fovea_state_cache *c = q->given.cache;
    const int64_t state = q->given.cache_state;
    fv_mutex_lock(&c->lock);
    for (int64_t i = 0; i < q->count; i++) {
        fv_state_sequence *s = fv_state_sequence_find(c, q->given.cache_sequences[i]);
        int64_t batch, first;
        const int64_t old = s->length[state], now = old + fv_sequence_tokens(q, i, &batch, &first);
        s->source[state] = old > 0 ? *fv_state_kept(c, s, state, old) : (fv_kept_state){0, -1};
        const int32_t source = s->source[state].block;
        if (source >= 0)
            c->pool[state].references[source]++;
        for (int64_t length = fv_max(old, now - c->slots) + 1; length <= now; length++) {
            fv_kept_state *kept = fv_state_kept(c, s, state, length);
            fv_state_take(c, state, kept, source);
            kept->length = length;
        }
        s->length[state] = now;
    }
    fv_mutex_unlock(&c->lock);
}

void fv_state_cache_end(const fv_sequences *q) {
    fovea_state_cache *c = q->given.cache;
    fv_mutex_lock(&c->lock);
    for (int64_t i = 0; i < q->count; i++)
        release(c, q->given.cache_state,
                fv_state_sequence_find(c, q->given.cache_sequences[i])->source[q->given.cache_state].block);
    fv_mutex_unlock(&c->lock);
}

fv_state fv_state_cache_state(const fv_sequences *q, int64_t sequence, int64_t head, int64_t slot) {
    fovea_state_cache *c = q->given.cache;
    const int64_t state = q->given.cache_state;
    fv_mutex_lock(&c->lock);
    const fv_state_sequence *s = fv_state_sequence_find(c, q->given.cache_sequences[sequence]);
    fv_mutex_unlock(&c->lock);
    const int64_t old = s->source[state].block >= 0 ? s->source[state].length : 0, length = s->length[state] - slot;
    const fv_kept_state *kept = slot < 0 ? &s->source[state] : fv_state_kept(c, s, state, length);
    if (slot >= 0 && (slot >= c->slots || length <= old))
        return (fv_state){0};
    return (fv_state){kept->block < 0 ? NULL : fv_state_floats(c, state, kept->block) + head * q->rows * q->columns,
                      FOVEA_DTYPE_F32, q->columns, false};
}
