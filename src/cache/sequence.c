/* Operations on sequences, except appending (fovea/cache.h). */
#include "cache/pool.h"

#include <stdlib.h>
#include <string.h>

static fovea_status fail_null(const char *name) { return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name); }

fovea_status fovea_kv_cache_add(fovea_kv_cache *c, int64_t *sequence) {
    if (!sequence)
        return fail_null("sequence");
    *sequence = -1;
    if (!c)
        return fail_null("cache");
    fv_cache_sequence *made;
    fv_mutex_lock(&c->lock);
    const fovea_status status = fv_cache_open(c, &made);
    if (status == FOVEA_OK)
        *sequence = made->number;
    fv_mutex_unlock(&c->lock);
    return status;
}

/* The evicted ranges of another sequence. */
static fovea_status copy_ranges(fv_cache_sequence *to, const fv_cache_sequence *from) {
    if (from->ranges == 0)
        return FOVEA_OK;
    to->evicted = malloc((size_t)from->ranges * sizeof *to->evicted);
    if (!to->evicted)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for evicted ranges");
    memcpy(to->evicted, from->evicted, (size_t)from->ranges * sizeof *to->evicted);
    to->ranges = to->range_room = from->ranges;
    return FOVEA_OK;
}

static fovea_status share(fovea_kv_cache *c, const fv_cache_list *from, fv_cache_list *to) {
    const int64_t count = fv_list_find(from, fv_ceil_div(from->length, FV_PAGE_KEYS));
    const fovea_status status = fv_list_room(to, count);
    if (status != FOVEA_OK)
        return status;
    to->length = from->length;
    to->behind = from->behind;
    for (; to->count < count; to->count++) {
        to->page[to->count] = from->page[to->count];
        fv_pool_hold(c, to->page[to->count].page);
    }
    return FOVEA_OK;
}

fovea_status fovea_kv_cache_fork(fovea_kv_cache *c, int64_t sequence, int64_t *fork) {
    if (!fork)
        return fail_null("fork");
    *fork = -1;
    if (!c)
        return fail_null("cache");
    fv_cache_sequence *made = NULL;
    fv_mutex_lock(&c->lock);
    const fv_cache_sequence *from = fv_cache_find(c, sequence);
    fovea_status status = from ? fv_cache_open(c, &made) : FOVEA_ERROR_ARGUMENT;
    if (status == FOVEA_OK)
        status = copy_ranges(made, from);
    for (int64_t i = 0; i < c->desc.layers && status == FOVEA_OK; i++)
        status = share(c, &from->layer[i], &made->layer[i]);
    if (status == FOVEA_OK)
        *fork = made->number;
    else if (made)
        fv_cache_close(c, made);
    fv_mutex_unlock(&c->lock);
    return status;
}

fovea_status fovea_kv_cache_remove(fovea_kv_cache *c, int64_t sequence) {
    if (!c)
        return fail_null("cache");
    fv_mutex_lock(&c->lock);
    fv_cache_sequence *s = fv_cache_find(c, sequence);
    if (s)
        fv_cache_close(c, s);
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
}

fovea_status fovea_kv_cache_length(fovea_kv_cache *c, int64_t layer, int64_t sequence, int64_t *length) {
    if (!c || !length)
        return fail_null(c ? "length" : "cache");
    if (layer < 0 || layer >= c->desc.layers)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "layer is %lld; the cache has %lld", (long long)layer,
                       (long long)c->desc.layers);
    fv_mutex_lock(&c->lock);
    const fv_cache_sequence *s = fv_cache_find(c, sequence);
    if (s)
        *length = s->layer[layer].length;
    fv_mutex_unlock(&c->lock);
    return s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
}

fovea_status fovea_kv_cache_reserve(fovea_kv_cache *c, int64_t count, const int64_t *sequences, const int64_t *tokens) {
    if (!c || (count > 0 && (!sequences || !tokens)))
        return fail_null(!c ? "cache" : !sequences ? "sequences" : "tokens");
    if (count < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0)
            return fv_fail(FOVEA_ERROR_SHAPE, "tokens[%lld] is %lld; it must be at least 0", (long long)i,
                           (long long)tokens[i]);
    fv_growth growth = {.end = c->desc.layers};
    fv_mutex_lock(&c->lock);
    fovea_status status = fv_growth_make(c, count, sequences, &growth);
    for (fv_cache_sequence *s = growth.first; s && status == FOVEA_OK; s = s->next)
        s->tokens = tokens[s->place];
    if (status == FOVEA_OK)
        status = fv_growth_begin(c, &growth);
    fv_mutex_unlock(&c->lock);
    if (status != FOVEA_OK)
        return status;
    fv_growth_copy(c, &growth);
    fv_mutex_lock(&c->lock);
    fv_growth_end(c, &growth);
    fv_mutex_unlock(&c->lock);
    return FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------------ truncate -- */

/* Does a layer lack keys that a token at a position would see? */
static bool gone(const fovea_kv_cache *c, const fv_cache_sequence *s, int64_t layer, int64_t position) {
    return c->windows && c->windows[layer] >= 0 && s->layer[layer].behind > 0 && position < s->layer[layer].length &&
           position - c->windows[layer] < s->layer[layer].behind * FV_PAGE_KEYS;
}

fovea_status fovea_kv_cache_truncate(fovea_kv_cache *c, int64_t sequence, int64_t length) {
    if (!c)
        return fail_null("cache");
    if (length < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "length is %lld; it must be at least 0", (long long)length);
    fovea_status status = FOVEA_OK;
    fv_mutex_lock(&c->lock);
    fv_cache_sequence *s = fv_cache_find(c, sequence);
    for (int64_t i = 0; s && i < c->desc.layers && status == FOVEA_OK && length > 0; i++)
        if (gone(c, s, i, length))
            status = fv_fail(FOVEA_ERROR_ARGUMENT,
                             "token %lld of layer %lld would see keys before %lld, which are gone behind its window",
                             (long long)length, (long long)i, (long long)s->layer[i].behind * FV_PAGE_KEYS);
    if (s && status == FOVEA_OK) {
        for (int64_t i = 0; i < c->desc.layers; i++)
            fv_list_cut(c, &s->layer[i], length);
        while (s->ranges > 0 && s->evicted[s->ranges - 1].begin >= length)
            s->ranges--;
        if (s->ranges > 0)
            s->evicted[s->ranges - 1].end = fv_min(s->evicted[s->ranges - 1].end, length);
    }
    fv_mutex_unlock(&c->lock);
    return s ? status : FOVEA_ERROR_ARGUMENT;
}

/* --------------------------------------------------------------------------------------------------------- evict -- */

/* Adds a range to those of a sequence, and gives the whole of which it is now part. */
static fovea_status add_range(fv_cache_sequence *s, fv_cache_range range, fv_cache_range *whole) {
    if (s->ranges == s->range_room) {
        const int64_t room = fv_max(2 * s->range_room, 4);
        fv_cache_range *ranges = realloc(s->evicted, (size_t)room * sizeof *ranges);
        if (!ranges)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a list of %lld ranges", (long long)room);
        s->evicted = ranges;
        s->range_room = room;
    }
    int64_t at = 0, end;
    while (at < s->ranges && s->evicted[at].end < range.begin)
        at++;
    for (end = at; end < s->ranges && s->evicted[end].begin <= range.end; end++) {
        range.begin = fv_min(range.begin, s->evicted[end].begin);
        range.end = fv_max(range.end, s->evicted[end].end);
    }
    memmove(&s->evicted[at + 1], &s->evicted[end], (size_t)(s->ranges - end) * sizeof *s->evicted);
    s->evicted[at] = *whole = range;
    s->ranges += at + 1 - end;
    return FOVEA_OK;
}

static int64_t shortest(const fovea_kv_cache *c, const fv_cache_sequence *s) {
    int64_t length = s->layer[0].length;
    for (int64_t i = 1; i < c->desc.layers; i++)
        length = fv_min(length, s->layer[i].length);
    return length;
}

static fovea_status evict(fovea_kv_cache *c, fv_cache_sequence *s, fv_cache_range range) {
    const int64_t length = shortest(c, s);
    if (range.begin < 0 || range.begin > range.end || range.end > length)
        return fv_fail(FOVEA_ERROR_SHAPE, "positions %lld to %lld are not in a sequence of %lld tokens",
                       (long long)range.begin, (long long)range.end, (long long)length);
    if (range.begin == range.end)
        return FOVEA_OK;
    const fovea_status status = add_range(s, range, &range);
    for (int64_t i = 0; i < c->desc.layers && status == FOVEA_OK; i++) {
        fv_cache_list *list = &s->layer[i];
        const int64_t begin = fv_list_find(list, fv_ceil_div(range.begin, FV_PAGE_KEYS)),
                      end = fv_max(fv_list_find(list, range.end / FV_PAGE_KEYS), begin);
        c->stats.evicted_pages += end - begin;
        fv_list_drop(c, list, begin, end);
    }
    return status;
}

fovea_status fovea_kv_cache_evict(fovea_kv_cache *c, int64_t sequence, int64_t begin, int64_t end) {
    if (!c)
        return fail_null("cache");
    fv_mutex_lock(&c->lock);
    fv_cache_sequence *s = fv_cache_find(c, sequence);
    const fovea_status status = s ? evict(c, s, (fv_cache_range){begin, end}) : FOVEA_ERROR_ARGUMENT;
    fv_mutex_unlock(&c->lock);
    return status;
}
