/* Pages, sequences, and lists of pages (pool.h). */
#include "cache/pool.h"

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- pages -- */

int32_t fv_pool_take(fovea_kv_cache *c) {
    assert(fv_pool_left(c) > 0);
    const int32_t page = c->free_count > 0 ? c->free[--c->free_count] : (int32_t)c->fresh++;
    c->references[page] = 1;
    c->stats.used_pages++;
    c->stats.peak_pages = c->fresh;
    return page;
}

void fv_pool_hold(fovea_kv_cache *c, int32_t page) {
    if (c->references[page]++ == 1)
        c->stats.shared_pages++;
}

void fv_pool_drop(fovea_kv_cache *c, int32_t page) {
    if (page == FV_PAGE_NONE)
        return;
    const int32_t left = --c->references[page];
    c->stats.shared_pages -= left == 1;
    if (left > 0)
        return;
    c->free[c->free_count++] = page;
    c->stats.used_pages--;
}

/* ----------------------------------------------------------------------------------------------------- sequences -- */

/* A number is a generation and a slot. */
enum { SLOT_BITS = 31 };

fv_cache_sequence *fv_cache_find(fovea_kv_cache *c, int64_t sequence) {
    const int64_t slot = sequence & (((int64_t)1 << SLOT_BITS) - 1);
    if (sequence >= 0 && slot < c->slots && c->slot[slot] && c->slot[slot]->number == sequence)
        return c->slot[slot];
    fv_fail(FOVEA_ERROR_ARGUMENT, "the cache has no sequence %lld", (long long)sequence);
    return NULL;
}

fovea_status fv_cache_open(fovea_kv_cache *c, fv_cache_sequence **sequence) {
    int64_t slot = 0;
    while (slot < c->slots && c->slot[slot])
        slot++;
    if (slot == c->slot_room) {
        const int64_t room = fv_max(2 * c->slot_room, 8);
        fv_cache_sequence **slots = realloc(c->slot, (size_t)room * sizeof *slots);
        if (!slots)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a list of %lld sequences", (long long)room);
        c->slot = slots;
        c->slot_room = room;
    }
    fv_cache_sequence *made = calloc(1, sizeof *made + (size_t)c->desc.layers * sizeof made->layer[0]);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a sequence");
    for (int64_t i = 0; i < c->desc.layers; i++)
        made->layer[i].origin = FV_PAGE_NONE;
    made->number = c->generation++ << SLOT_BITS | slot;
    c->slot[slot] = made;
    c->slots = fv_max(c->slots, slot + 1);
    c->stats.sequences++;
    *sequence = made;
    return FOVEA_OK;
}

void fv_cache_close(fovea_kv_cache *c, fv_cache_sequence *s) {
    for (int64_t i = 0; i < c->desc.layers; i++) {
        fv_list_cut(c, &s->layer[i], 0);
        free(s->layer[i].page);
    }
    c->slot[s->number & (((int64_t)1 << SLOT_BITS) - 1)] = NULL;
    c->stats.sequences--;
    free(s->evicted);
    free(s);
}

/* --------------------------------------------------------------------------------------------------------- lists -- */

fovea_status fv_list_room(fv_cache_list *list, int64_t count) {
    if (count <= list->room)
        return FOVEA_OK;
    const int64_t room = fv_max(count, fv_max(2 * list->room, 4));
    fv_cache_page *pages = realloc(list->page, (size_t)room * sizeof *pages);
    if (!pages)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a list of %lld pages", (long long)room);
    list->page = pages;
    list->room = room;
    return FOVEA_OK;
}

int64_t fv_list_find(const fv_cache_list *list, int64_t at) {
    int64_t low = 0, high = list->count;
    const int64_t guess = high > 0 ? at - list->page[0].at : 0; /* right where no page is missing */
    if (guess >= 0 && guess < high && list->page[guess].at == at)
        return guess;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (list->page[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void fv_list_add(fovea_kv_cache *c, fv_cache_list *list, int64_t at) {
    assert(list->count < list->room && (list->count == 0 || list->page[list->count - 1].at < at));
    list->page[list->count++] = (fv_cache_page){(int32_t)at, fv_pool_take(c)};
}

void fv_list_drop(fovea_kv_cache *c, fv_cache_list *list, int64_t begin, int64_t end) {
    if (begin >= end)
        return;
    for (int64_t i = begin; i < end; i++)
        fv_pool_drop(c, list->page[i].page);
    memmove(list->page + begin, list->page + end, (size_t)(list->count - end) * sizeof *list->page);
    list->count -= end - begin;
}

void fv_list_cut(fovea_kv_cache *c, fv_cache_list *list, int64_t length) {
    list->length = fv_min(list->length, length);
    const int64_t end = fv_ceil_div(list->length, FV_PAGE_KEYS);
    fv_list_drop(c, list, fv_list_find(list, end), list->count);
    list->behind = fv_min(list->behind, end);
}
