/* How attention reads a cache (cache.h). */
#include "cache/pool.h"

#include <string.h>

/* Flags of the keys of a sequence that were not evicted. */
static void write_bits(const fv_cache_sequence *s, int64_t keys, uint8_t *bits, int64_t bytes) {
    memset(bits, 0xff, (size_t)bytes);
    for (int64_t i = 0; i < s->ranges && s->evicted[i].begin < keys; i++) {
        int64_t key = s->evicted[i].begin;
        const int64_t end = fv_min(s->evicted[i].end, keys), whole = fv_round_down(end, 8);
        for (; key < end && key % 8 != 0; key++)
            bits[key / 8] &= (uint8_t) ~(1u << key % 8);
        if (key < whole) { /* may be most of a long sequence, and others wait for the lock */
            memset(bits + key / 8, 0, (size_t)(whole - key) / 8);
            key = whole;
        }
        for (; key < end; key++)
            bits[key / 8] &= (uint8_t) ~(1u << key % 8);
    }
}

static fovea_status read_one(const fv_cache_reading *r, int64_t i, const fv_cache_sequence *s) {
    const fv_cache_list *list = &s->layer[r->layer];
    const int64_t keys = r->kv_lens ? r->kv_lens[i] : list->length, pages = fv_ceil_div(keys, FV_PAGE_KEYS);
    if (keys > list->length)
        return fv_fail(FOVEA_ERROR_SHAPE, "kv_lens[%lld] is %lld, but sequence %lld has %lld tokens in layer %lld",
                       (long long)i, (long long)keys, (long long)s->number, (long long)list->length,
                       (long long)r->layer);
    if (keys > r->most_keys)
        return fv_fail(FOVEA_ERROR_SHAPE, "sequence %lld has %lld tokens; kv_len of the plan is %lld",
                       (long long)s->number, (long long)keys, (long long)r->most_keys);
    r->lens[i] = keys;
    r->first[i] = list->behind * FV_PAGE_KEYS;
    int64_t *table = r->table + i * r->table_stride;
    const int64_t there = fv_list_find(list, pages);
    memset(table, 0, (size_t)pages * sizeof *table);
    for (int64_t p = 0; p < there; p++)
        table[list->page[p].at] = list->page[p].page;
    return FOVEA_OK;
}

fovea_status fv_cache_read(fovea_kv_cache *c, fv_cache_reading *r) {
    fovea_status status = FOVEA_OK;
    if (r->layer < 0 || r->layer >= c->desc.layers)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "cache_layer is %lld; the cache has %lld", (long long)r->layer,
                       (long long)c->desc.layers);
    r->evicts = false;
    fv_mutex_lock(&c->lock);
    for (int64_t i = 0; i < r->count && status == FOVEA_OK; i++) {
        const fv_cache_sequence *s = fv_cache_find(c, r->sequences[i]);
        status = s ? read_one(r, i, s) : FOVEA_ERROR_ARGUMENT;
        r->evicts = r->evicts || (s && s->ranges > 0);
    }
    for (int64_t i = 0; i < r->count && status == FOVEA_OK && r->evicts; i++)
        write_bits(fv_cache_find(c, r->sequences[i]), r->lens[i], r->bits + i * r->bits_stride, r->bits_stride);
    fv_mutex_unlock(&c->lock);
    return status;
}

void fv_cache_cut(fovea_kv_cache *c, int64_t layer, int64_t count, const int64_t *sequences, const int64_t *lengths) {
    fv_mutex_lock(&c->lock);
    for (int64_t i = 0; i < count; i++) {
        fv_cache_sequence *s = fv_cache_find(c, sequences[i]);
        if (s)
            fv_list_cut(c, &s->layer[layer], lengths[i]);
    }
    fv_mutex_unlock(&c->lock);
}
