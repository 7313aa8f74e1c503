/* Sequences as bytes (fovea/cache.h). In this order, without gaps, numbers of 64 bits in the machine's byte order:
 *
 *     head       as below
 *     layers     for each: its window, its length, pages gone behind the window
 *     ranges     evicted: for each its begin and end
 *     rows       for each layer and head: keys of the tokens that are there, one after another, then their values,
 *                then, where they are int8, the scales of keys and of values
 *     checksum   FNV-1a of all before it
 *
 * A token is there if it is not in an evicted range and not in a page that is gone. */
#include "cache/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };                      /* of caches with 4-bit keys or values; 2: with int8; 1: of others */
#define MAGIC UINT64_C(0x31564b6165766f46) /* "FoveaKV1" where the lowest byte comes first */

typedef struct head {
    uint64_t magic;
    int64_t version, layers, kv_heads, head_dim, value_dim, k_dtype, v_dtype, ranges;
    uint64_t rope; /* hash of its angles; 0: none */
} head;

typedef struct layer_head {
    int64_t window, length, behind;
} layer_head;

static head head_of(const fovea_kv_cache *c, int64_t ranges) {
    const fovea_kv_cache_desc *d = &c->desc;
    const bool i4 = d->k_dtype == FOVEA_DTYPE_I4 || d->v_dtype == FOVEA_DTYPE_I4;
    const bool i8 = d->k_dtype == FOVEA_DTYPE_I8 || d->v_dtype == FOVEA_DTYPE_I8;
    return (head){MAGIC,
                  FV_SAVED_VERSION(i4   ? VERSION
                                   : i8 ? 2
                                        : 1),
                  d->layers,
                  d->kv_heads,
                  d->head_dim,
                  d->value_dim,
                  (int64_t)d->k_dtype,
                  (int64_t)d->v_dtype,
                  ranges,
                  d->rope ? fv_rope_hash(d->rope) : 0};
}

/* Runs of tokens of a layer that are there, in order. */
typedef struct walk {
    const fv_cache_range *evicted;
    int64_t ranges, range, token, length;
} walk;

static walk walk_from(const fv_cache_range *evicted, int64_t ranges, int64_t behind, int64_t length) {
    walk w = {evicted, ranges, 0, fv_min(behind * FV_PAGE_KEYS, length), length};
    for (int64_t end = ranges; w.range < end;) { /* to the first range that ends past the token, however many do not */
        const int64_t middle = (w.range + end) / 2;
        if (evicted[middle].end <= w.token)
            w.range = middle + 1;
        else
            end = middle;
    }
    return w;
}

static bool walk_next(walk *w, fv_cache_range *run) {
    for (; w->range < w->ranges && w->evicted[w->range].begin <= w->token; w->range++)
        w->token = fv_max(w->token, w->evicted[w->range].end);
    if (w->token >= w->length)
        return false;
    run->begin = w->token;
    run->end = w->token = w->range < w->ranges ? fv_min(w->evicted[w->range].begin, w->length) : w->length;
    return true;
}

static int64_t rows_there(const fv_cache_range *evicted, int64_t ranges, const layer_head *layer) {
    walk w = walk_from(evicted, ranges, layer->behind, layer->length);
    int64_t rows = 0;
    for (fv_cache_range run; walk_next(&w, &run);)
        rows += run.end - run.begin;
    return rows;
}

static layer_head layer_of(const fovea_kv_cache *c, const fv_cache_sequence *s, int64_t layer) {
    return (layer_head){c->windows ? c->windows[layer] : -1, s->layer[layer].length, s->layer[layer].behind};
}

/* Copies a part of a head, out of pages or into them. */
static char *copy_part(const fovea_kv_cache *c, const fv_cache_sequence *s, int64_t layer, int64_t h, fv_page_part part,
                       char *bytes, bool load) {
    const fv_cache_list *list = &s->layer[layer];
    const int64_t row = c->pages.part[part].row;
    walk w = walk_from(s->evicted, s->ranges, list->behind, list->length);
    for (fv_cache_range run; row > 0 && walk_next(&w, &run);)
        for (int64_t at = run.begin, count; at < run.end; at += count) {
            count = fv_min(run.end - at, FV_PAGE_KEYS - at % FV_PAGE_KEYS);
            const int32_t page = fv_list_page(list, at);
            char *there = fv_cache_at(c, part, page, h, at);
            if (!c->pages.part[part].word)
                memcpy(load ? there : bytes, load ? bytes : there, (size_t)(count * row));
            else if (load)
                fv_interleaved_write(&c->pages, part, page, h, at % FV_PAGE_KEYS, count, bytes);
            else
                fv_interleaved_read(&c->pages, part, page, h, at % FV_PAGE_KEYS, count, bytes);
            bytes += count * row;
        }
    return bytes;
}

static char *copy_all(const fovea_kv_cache *c, const fv_cache_sequence *s, char *bytes, bool load) {
    for (int64_t layer = 0; layer < c->desc.layers; layer++)
        for (int64_t h = 0; h < c->desc.kv_heads; h++)
            for (fv_page_part part = 0; part < FV_PAGE_PARTS; part++)
                bytes = copy_part(c, s, layer, h, part, bytes, load);
    return bytes;
}

static char *put(char *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return to + bytes;
}

fovea_status fovea_kv_cache_save(fovea_kv_cache *c, int64_t sequence, void *data, size_t size, size_t *needed) {
    if (!c || !needed)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "needed" : "cache");
    fv_mutex_lock(&c->lock);
    const fv_cache_sequence *s = fv_cache_find(c, sequence); /* nobody else changes it meanwhile */
    fv_mutex_unlock(&c->lock);
    if (!s)
        return FOVEA_ERROR_ARGUMENT;
    const head own = head_of(c, s->ranges);
    size_t bytes = sizeof own + (size_t)c->desc.layers * sizeof(layer_head) +
                   (size_t)s->ranges * sizeof(fv_cache_range) + sizeof(uint64_t);
    for (int64_t i = 0; i < c->desc.layers; i++) {
        const layer_head layer = layer_of(c, s, i);
        bytes += (size_t)(rows_there(s->evicted, s->ranges, &layer) * fv_cache_token_bytes(c));
    }
    *needed = bytes;
    if (!data)
        return FOVEA_OK;
    if (size < bytes)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "data has %zu bytes; the sequence needs %zu", size, bytes);
    char *at = put(data, &own, sizeof own);
    for (int64_t i = 0; i < c->desc.layers; i++) {
        const layer_head layer = layer_of(c, s, i);
        at = put(at, &layer, sizeof layer);
    }
    if (s->ranges > 0)
        at = put(at, s->evicted, (size_t)s->ranges * sizeof *s->evicted);
    at = copy_all(c, s, at, false);
    const uint64_t hash = fv_hash(FV_HASH_BEGIN, data, bytes - sizeof hash);
    put(at, &hash, sizeof hash);
    return FOVEA_OK;
}

/* ---------------------------------------------------------------------------------------------------------- load -- */

/* Bytes that are read, and what of them was understood. */
typedef struct saved {
    const char *bytes;
    size_t size;
    head head;
    layer_head *layers;      /* own copies, */
    fv_cache_range *evicted; /* as bytes may lie at any address */
    const char *rows;
} saved;

static fovea_status damaged(const char *what) {
    return fv_fail(FOVEA_ERROR_FILE, "not a saved sequence, or a damaged one: %s", what);
}

static const char *type_name(int64_t dtype) {
    const char *name = dtype >= 0 && dtype < 64 ? fv_enum_name(FV_ENUM_dtype, (int)dtype) : NULL;
    return name ? name : "unknown";
}

static fovea_status read_head(const fovea_kv_cache *c, saved *x) {
    uint64_t hash;
    if (x->size < sizeof x->head + sizeof hash)
        return damaged("it is too short");
    memcpy(&x->head, x->bytes, sizeof x->head);
    if (x->head.magic != MAGIC)
        return damaged("it begins with other bytes");
    const fovea_status status = fv_saved_version_check(x->head.version, VERSION);
    if (status != FOVEA_OK)
        return status;
    memcpy(&hash, x->bytes + x->size - sizeof hash, sizeof hash);
    if ((int32_t)x->head.version < 1 || hash != fv_hash(FV_HASH_BEGIN, x->bytes, x->size - sizeof hash))
        return damaged("its checksum is wrong");
    const head own = head_of(c, x->head.ranges);
    if (memcmp(&own, &x->head, sizeof own) != 0)
        return fv_fail(FOVEA_ERROR_INCOMPATIBLE,
                       "the sequence is of %lld layers of %lld heads of %lld and %lld channels, types %s and %s, "
                       "%s; the cache has others",
                       (long long)x->head.layers, (long long)x->head.kv_heads, (long long)x->head.head_dim,
                       (long long)x->head.value_dim, type_name(x->head.k_dtype), type_name(x->head.v_dtype),
                       x->head.rope ? "with a rope" : "without a rope");
    return FOVEA_OK;
}

/* Could quantizing have given these bytes of a part? */
static bool part_possible(const fovea_kv_cache *c, fv_page_part part, const char *bytes, int64_t count) {
    const fovea_dtype dtype = c->pages.dtype[part % 2];
    const bool scales = part >= FV_KEY_SCALES, i4 = dtype == FOVEA_DTYPE_I4;
    bool possible = true;
    for (int64_t i = 0; scales && !i4 && i < count; i += (int64_t)sizeof(float)) {
        float scale;
        memcpy(&scale, bytes + i, sizeof scale);
        possible = possible && (isnan(scale) || (scale >= 0.0f && scale < INFINITY));
    }
    for (int64_t i = 0; scales && i4 && i < count; i += (int64_t)sizeof(uint16_t)) {
        uint16_t scale;
        memcpy(&scale, bytes + i, sizeof scale);
        possible = possible && scale < 0x8000 && scale != 0x7c00; /* a float16 */
    }
    for (int64_t i = 0; !scales && fv_dtype_paged(dtype) && i < count; i++)
        possible = possible && (i4 ? (bytes[i] & 0x0f) && (bytes[i] & 0xf0) : (signed char)bytes[i] != INT8_MIN);
    return possible;
}

static bool rows_possible(const fovea_kv_cache *c, const saved *x) {
    const char *at = x->rows;
    bool possible = true;
    for (int64_t layer = 0; layer < c->desc.layers; layer++) {
        const int64_t rows = rows_there(x->evicted, x->head.ranges, &x->layers[layer]);
        for (int64_t h = 0; h < c->desc.kv_heads; h++)
            for (fv_page_part part = 0; part < FV_PAGE_PARTS; part++) {
                possible = possible && part_possible(c, part, at, rows * c->pages.part[part].row);
                at += rows * c->pages.part[part].row;
            }
    }
    return possible;
}

/* Layers and ranges: possible ones, whose rows are as many as there are. */
static fovea_status check_parts(const fovea_kv_cache *c, const saved *x) {
    const int64_t longest = (int64_t)1 << 31; /* so that attention over it takes at most some 300 MB and a second */
    int64_t shortest = longest, rows = 0;
    for (int64_t i = 0; i < c->desc.layers; i++) {
        const layer_head *layer = &x->layers[i];
        const int64_t window = c->windows ? c->windows[i] : -1;
        if (layer->window != window)
            return fv_fail(FOVEA_ERROR_INCOMPATIBLE, "layer %lld has a window of %lld, in the cache one of %lld",
                           (long long)i, (long long)layer->window, (long long)window);
        if (layer->length < 0 || layer->length > longest)
            return damaged("a length is impossible");
        const int64_t most = window < 0 ? 0 : fv_max(layer->length - window, 0) / FV_PAGE_KEYS;
        if (layer->behind < 0 || layer->behind > most)
            return damaged("more is gone behind a window than it lets go");
        shortest = fv_min(shortest, layer->length);
    }
    for (int64_t i = 0, before = -1; i < x->head.ranges; i++) {
        const fv_cache_range r = x->evicted[i];
        if (r.begin <= before || r.begin < 0 || r.end <= r.begin || r.end > shortest)
            return damaged("an evicted range is impossible");
        before = r.end;
    }
    for (int64_t i = 0; i < c->desc.layers; i++)
        rows += rows_there(x->evicted, x->head.ranges, &x->layers[i]);
    int64_t bytes;
    const int64_t given = x->bytes + x->size - sizeof(uint64_t) - x->rows;
    if (!fv_multiply(rows, fv_cache_token_bytes(c), &bytes) || bytes != given)
        return damaged("its size is wrong");
    return rows_possible(c, x) ? FOVEA_OK : damaged("an integer or a scale is impossible");
}

static fovea_status read_parts(const fovea_kv_cache *c, saved *x) {
    const size_t layers = (size_t)c->desc.layers * sizeof *x->layers,
                 left = x->size - sizeof x->head - sizeof(uint64_t);
    if (layers > left || x->head.ranges < 0 || (uint64_t)x->head.ranges > (left - layers) / sizeof *x->evicted)
        return damaged("it is cut off");
    const size_t ranges = (size_t)x->head.ranges * sizeof *x->evicted;
    x->layers = malloc(layers);
    x->evicted = malloc(ranges + 1);
    if (!x->layers || !x->evicted)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory to load a saved sequence");
    memcpy(x->layers, x->bytes + sizeof x->head, layers);
    memcpy(x->evicted, x->bytes + sizeof x->head + layers, ranges);
    x->rows = x->bytes + sizeof x->head + layers + ranges;
    return check_parts(c, x);
}

/* The pages of a layer in which some token is there: counts them, or takes them into a list that has none yet. */
static int64_t pages_there(fovea_kv_cache *c, const saved *x, int64_t layer, fv_cache_list *list) {
    walk w = walk_from(x->evicted, x->head.ranges, x->layers[layer].behind, x->layers[layer].length);
    int64_t pages = 0, next = 0;
    for (fv_cache_range run; walk_next(&w, &run);)
        for (int64_t p = fv_max(run.begin / FV_PAGE_KEYS, next); p < fv_ceil_div(run.end, FV_PAGE_KEYS); p++) {
            if (list)
                fv_list_add(c, list, p);
            next = p + 1;
            pages++;
        }
    return pages;
}

/* Under the lock: pages for all layers, or none. */
static fovea_status fill_lists(fovea_kv_cache *c, const saved *x, fv_cache_sequence *s) {
    int64_t needed = 0;
    for (int64_t i = 0; i < c->desc.layers; i++)
        needed += pages_there(c, x, i, NULL);
    if (needed > fv_pool_left(c))
        return fv_fail(FOVEA_ERROR_FULL, "the cache has %lld of %lld pages left; the sequence needs %lld",
                       (long long)fv_pool_left(c), (long long)c->desc.max_pages, (long long)needed);
    for (int64_t i = 0; i < c->desc.layers; i++) {
        const fovea_status status = fv_list_room(&s->layer[i], pages_there(c, x, i, NULL));
        if (status != FOVEA_OK)
            return status;
    }
    for (int64_t i = 0; i < c->desc.layers; i++) {
        fv_cache_list *list = &s->layer[i];
        list->length = x->layers[i].length;
        list->behind = x->layers[i].behind;
        pages_there(c, x, i, list);
    }
    return FOVEA_OK;
}

static fovea_status load(fovea_kv_cache *c, saved *x, int64_t *sequence) {
    fv_cache_sequence *s;
    fv_mutex_lock(&c->lock);
    fovea_status status = fv_cache_open(c, &s);
    if (status == FOVEA_OK) {
        status = fill_lists(c, x, s);
        if (status != FOVEA_OK)
            fv_cache_close(c, s);
    }
    if (status == FOVEA_OK) {
        s->evicted = x->evicted;
        s->ranges = s->range_room = x->head.ranges;
        x->evicted = NULL;
    }
    fv_mutex_unlock(&c->lock);
    if (status != FOVEA_OK)
        return status;
    copy_all(c, s, (char *)(uintptr_t)x->rows, true); /* nobody else knows its number yet; rows are only read */
    *sequence = s->number;
    return FOVEA_OK;
}

fovea_status fovea_kv_cache_load(fovea_kv_cache *c, const void *data, size_t size, int64_t *sequence) {
    if (!sequence)
        return fv_fail(FOVEA_ERROR_NULL, "sequence is NULL");
    *sequence = -1;
    if (!c || !data)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "data" : "cache");
    saved x = {.bytes = data, .size = size};
    fovea_status status = read_head(c, &x);
    if (status == FOVEA_OK)
        status = read_parts(c, &x);
    if (status == FOVEA_OK)
        status = load(c, &x, sequence);
    free(x.layers);
    free(x.evicted);
    return status;
}
