/* Caches over ranks (cache.h): sequences, and all operations on them but appending. Steps that can fail make a copy;
 * once all ranks have succeeded, it replaces the original, else it is dropped. */
#include "cache.h"
#include "agree.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>

fovea_status fv_mpi_cache_agree(const fovea_mpi_cache *c, fovea_status status, const int64_t *numbers, size_t count,
                                const char *what) {
    return fv_mpi_agree(c->comm, status, fv_mpi_digest(0, numbers, count * sizeof *numbers), what);
}

static int64_t place_of(const fovea_mpi_cache *c, int64_t number) {
    int64_t low = 0, high = c->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (c->sequence[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

fv_mpi_sequence *fv_mpi_cache_find(const fovea_mpi_cache *c, int64_t number) {
    const int64_t at = place_of(c, number);
    if (at < c->count && c->sequence[at]->number == number)
        return c->sequence[at];
    fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "the cache has no sequence %lld", (long long)number);
    return NULL;
}

fovea_status fv_mpi_cache_check_layer(const fovea_mpi_cache *c, int64_t layer) {
    return layer >= 0 && layer < c->desc.layers ? FOVEA_OK
                                                : fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "layer is %lld; the cache has %lld",
                                                              (long long)layer, (long long)c->desc.layers);
}

fovea_status fv_mpi_cache_room(fv_mpi_cache_layer *l, int64_t count) {
    if (count <= l->room)
        return FOVEA_OK;
    const int64_t room = fv_mpi_max(count, fv_mpi_max(4, 2 * l->room));
    int64_t *parts = realloc(l->part, (size_t)room * sizeof *parts);
    if (!parts)
        return fv_mpi_fail_memory();
    l->part = parts;
    l->room = room;
    return FOVEA_OK;
}

static void drop_part(const fovea_mpi_cache *c, int64_t part) {
    if (part != FV_MPI_PART_NONE)
        fovea_kv_cache_remove(c->pool, part);
}

void fv_mpi_cache_cut(fovea_mpi_cache *c, fv_mpi_cache_layer *l, int64_t length) {
    l->length = fv_mpi_min(l->length, length);
    fv_mpi_layout layout = c->layout;
    layout.total = l->length;
    const int64_t held = fv_mpi_held(&layout, c->rank), count = fv_mpi_ceil(held, FV_MPI_SEGMENT);
    while (l->count > count)
        drop_part(c, l->part[--l->count]);
    if (l->count == count && count > 0 && l->part[count - 1] != FV_MPI_PART_NONE)
        fovea_kv_cache_truncate(c->pool, l->part[count - 1], held - (count - 1) * FV_MPI_SEGMENT);
    l->behind = fv_mpi_min(l->behind, fv_mpi_ceil(l->length, FV_MPI_SEGMENT));
}

static void free_sequence(fovea_mpi_cache *c, fv_mpi_sequence *s) {
    for (int64_t i = 0; s && i < c->desc.layers; i++) {
        fv_mpi_cache_cut(c, &s->layer[i], 0);
        free(s->layer[i].part);
    }
    free(s);
}

/* A sequence without tokens, and room for it among the others. */
static fovea_status new_sequence(fovea_mpi_cache *c, fv_mpi_sequence **s) {
    *s = calloc(1, sizeof **s + (size_t)c->desc.layers * sizeof *(*s)->layer);
    if (c->count == c->room) {
        const int64_t room = fv_mpi_max(8, 2 * c->room);
        fv_mpi_sequence **more = realloc(c->sequence, (size_t)room * sizeof(fv_mpi_sequence *));
        if (!more)
            return fv_mpi_fail_memory();
        c->sequence = more;
        c->room = room;
    }
    return *s ? FOVEA_OK : fv_mpi_fail_memory();
}

/* Ranks agree on a new sequence. */
static fovea_status enter(fovea_mpi_cache *c, fovea_status status, fv_mpi_sequence *s, int64_t from, int64_t *number) {
    status = fv_mpi_cache_agree(c, status, &from, 1, "sequences");
    if (status != FOVEA_OK) {
        free_sequence(c, s);
        return status;
    }
    *number = s->number = c->next++;
    c->sequence[c->count++] = s;
    return FOVEA_OK;
}

fovea_status fovea_mpi_cache_add(fovea_mpi_cache *c, int64_t *sequence) {
    if (!c)
        return fv_mpi_fail_null("cache");
    int64_t number = -1;
    fv_mpi_sequence *s = NULL;
    fovea_status status = sequence ? new_sequence(c, &s) : fv_mpi_fail_null("sequence");
    status = enter(c, status, s, -1, &number);
    if (sequence)
        *sequence = number;
    return status;
}

static fovea_status fork_layer(const fovea_mpi_cache *c, const fv_mpi_cache_layer *from, fv_mpi_cache_layer *to) {
    fovea_status status = fv_mpi_cache_room(to, from->count);
    to->length = from->length;
    to->behind = from->behind;
    while (status == FOVEA_OK && to->count < from->count) {
        int64_t part = from->part[to->count];
        if (part != FV_MPI_PART_NONE && (status = fovea_kv_cache_fork(c->pool, part, &part)) != FOVEA_OK)
            return fv_mpi_from_core(status);
        to->part[to->count++] = part;
    }
    return status;
}

fovea_status fovea_mpi_cache_fork(fovea_mpi_cache *c, int64_t sequence, int64_t *fork) {
    if (!c)
        return fv_mpi_fail_null("cache");
    int64_t number = -1;
    fv_mpi_sequence *s = NULL;
    const fv_mpi_sequence *from = fv_mpi_cache_find(c, sequence);
    fovea_status status = !fork ? fv_mpi_fail_null("fork") : from ? new_sequence(c, &s) : FOVEA_ERROR_ARGUMENT;
    for (int64_t i = 0; i < c->desc.layers && status == FOVEA_OK; i++)
        status = fork_layer(c, &from->layer[i], &s->layer[i]);
    status = enter(c, status, s, sequence, &number);
    if (fork)
        *fork = number;
    return status;
}

fovea_status fovea_mpi_cache_remove(fovea_mpi_cache *c, int64_t sequence) {
    if (!c)
        return fv_mpi_fail_null("cache");
    fv_mpi_sequence *s = fv_mpi_cache_find(c, sequence);
    const fovea_status status = fv_mpi_cache_agree(c, s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT, &sequence, 1, "sequences");
    if (status != FOVEA_OK)
        return status;
    const int64_t at = place_of(c, sequence);
    free_sequence(c, s);
    memmove(&c->sequence[at], &c->sequence[at + 1], (size_t)(--c->count - at) * sizeof(fv_mpi_sequence *));
    return FOVEA_OK;
}

void fovea_mpi_cache_clear(fovea_mpi_cache *c) {
    while (c && c->count > 0)
        free_sequence(c, c->sequence[--c->count]);
}

fovea_status fovea_mpi_cache_length(const fovea_mpi_cache *c, int64_t layer, int64_t sequence, int64_t *length) {
    if (!c || !length)
        return fv_mpi_fail_null(c ? "length" : "cache");
    const fovea_status status = fv_mpi_cache_check_layer(c, layer);
    const fv_mpi_sequence *s = status == FOVEA_OK ? fv_mpi_cache_find(c, sequence) : NULL;
    if (!s)
        return FOVEA_ERROR_ARGUMENT;
    *length = s->layer[layer].length;
    return FOVEA_OK;
}

fovea_status fovea_mpi_cache_stats(fovea_mpi_cache *c, fovea_kv_stats *stats) {
    if (!c || !stats)
        return fv_mpi_fail_null(c ? "stats" : "cache");
    fovea_kv_stats own;
    fovea_kv_stats_init(&own);
    const size_t size = stats->struct_size;
    fovea_status status = fv_mpi_read_struct(&own, stats, sizeof own, "stats");
    if (status != FOVEA_OK)
        return status;
    status = fv_mpi_from_core(fovea_kv_cache_stats(c->pool, &own));
    own.struct_size = size;
    own.token_bytes *= c->desc.layers;
    own.sequences = c->count;
    own.window_pages = c->window_pages;
    memcpy(stats, &own, size);
    return status;
}

/* Does a layer lack keys that a token at a position would see? */
static bool gone(const fovea_mpi_cache *c, const fv_mpi_sequence *s, int64_t layer, int64_t position) {
    const fv_mpi_cache_layer *l = &s->layer[layer];
    return c->windows && c->windows[layer] >= 0 && l->behind > 0 && position < l->length &&
           position - c->windows[layer] < l->behind * FV_MPI_SEGMENT;
}

fovea_status fovea_mpi_cache_truncate(fovea_mpi_cache *c, int64_t sequence, int64_t length) {
    if (!c)
        return fv_mpi_fail_null("cache");
    fv_mpi_sequence *s = fv_mpi_cache_find(c, sequence);
    fovea_status status = s ? FOVEA_OK : FOVEA_ERROR_ARGUMENT;
    if (length < 0)
        status = fv_mpi_fail(FOVEA_ERROR_SHAPE, "length is %lld; it must be at least 0", (long long)length);
    for (int64_t i = 0; i < c->desc.layers && status == FOVEA_OK && length > 0; i++)
        if (gone(c, s, i, length))
            status = fv_mpi_fail(FOVEA_ERROR_ARGUMENT,
                                 "token %lld of layer %lld would see keys before %lld, which are gone behind its "
                                 "window",
                                 (long long)length, (long long)i, (long long)s->layer[i].behind * FV_MPI_SEGMENT);
    status = fv_mpi_cache_agree(c, status, (int64_t[2]){sequence, length}, 2, "sequences or lengths");
    for (int64_t i = 0; i < c->desc.layers && status == FOVEA_OK; i++)
        fv_mpi_cache_cut(c, &s->layer[i], length);
    return status;
}

/* Parts that take the place of others. */
typedef struct replacing {
    struct replaced {
        int64_t *part, by;
    } * list;
    int64_t count, room;
} replacing;

/* A fork of a part without positions [begin, end). */
static fovea_status evict_part(const fovea_mpi_cache *c, replacing *r, int64_t *part, int64_t begin, int64_t end) {
    if (r->count == r->room) {
        const int64_t room = fv_mpi_max(16, 2 * r->room);
        struct replaced *more = realloc(r->list, (size_t)room * sizeof *more);
        if (!more)
            return fv_mpi_fail_memory();
        r->list = more;
        r->room = room;
    }
    struct replaced *x = &r->list[r->count];
    *x = (struct replaced){part, FV_MPI_PART_NONE};
    fovea_status status = fovea_kv_cache_fork(c->pool, *part, &x->by);
    if (status != FOVEA_OK)
        return fv_mpi_from_core(status);
    r->count++;
    status = fovea_kv_cache_evict(c->pool, x->by, begin, end);
    return fv_mpi_from_core(status);
}

static fovea_status evict(fovea_mpi_cache *c, fv_mpi_sequence *s, int64_t begin, int64_t end, replacing *r) {
    int64_t shortest = INT64_MAX;
    for (int64_t i = 0; i < c->desc.layers; i++)
        shortest = fv_mpi_min(shortest, s->layer[i].length);
    if (begin < 0 || begin > end || end > shortest)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "positions %lld to %lld are not in a sequence of %lld tokens",
                           (long long)begin, (long long)end, (long long)shortest);
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < c->desc.layers; i++)
        for (int64_t at = begin / FV_MPI_SEGMENT * FV_MPI_SEGMENT; at < end && status == FOVEA_OK;
             at += FV_MPI_SEGMENT) {
            if (fv_mpi_owner(&c->layout, at) != c->rank)
                continue;
            int64_t *part = &s->layer[i].part[fv_mpi_local(&c->layout, at) / FV_MPI_SEGMENT];
            if (*part != FV_MPI_PART_NONE)
                status = evict_part(c, r, part, fv_mpi_max(begin - at, 0), fv_mpi_min(end - at, FV_MPI_SEGMENT));
        }
    return status;
}

fovea_status fovea_mpi_cache_evict(fovea_mpi_cache *c, int64_t sequence, int64_t begin, int64_t end) {
    if (!c)
        return fv_mpi_fail_null("cache");
    replacing r = {0};
    fv_mpi_sequence *s = fv_mpi_cache_find(c, sequence);
    fovea_status status = s ? evict(c, s, begin, end, &r) : FOVEA_ERROR_ARGUMENT;
    status = fv_mpi_cache_agree(c, status, (int64_t[3]){sequence, begin, end}, 3, "sequences or positions");
    for (int64_t i = 0; i < r.count; i++) {
        const int64_t old = *r.list[i].part, by = r.list[i].by;
        drop_part(c, status == FOVEA_OK ? old : by);
        *r.list[i].part = status == FOVEA_OK ? by : old;
    }
    free(r.list);
    return status;
}
