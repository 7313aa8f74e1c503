/* Lists of pages that grow, all of a call or none (pool.h). */
#include "cache/pool.h"

#include <string.h>

fovea_status fv_growth_make(fovea_kv_cache *c, int64_t count, const int64_t *sequences, fv_growth *growth) {
    fv_cache_sequence **next = &growth->first;
    const int64_t mark = ++c->marks;
    for (int64_t i = 0; i < count; i++) {
        fv_cache_sequence *s = fv_cache_find(c, sequences[i]);
        if (!s)
            return FOVEA_ERROR_ARGUMENT;
        if (s->mark == mark)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "sequence %lld is named twice", (long long)sequences[i]);
        s->mark = mark;
        s->place = i;
        s->tokens = 0;
        *next = s;
        next = &s->next;
    }
    *next = NULL;
    return FOVEA_OK;
}

/* The page that a list's next token goes to, if it is begun and there; else NULL. */
static fv_cache_page *begun(const fv_cache_list *list) {
    const int64_t at = list->length / FV_PAGE_KEYS, i = fv_list_find(list, at);
    return list->length % FV_PAGE_KEYS != 0 && i < list->count && list->page[i].at == at ? &list->page[i] : NULL;
}

/* The first page that a list lacks for new tokens, and how many pages it lacks for a number of them. */
static int64_t first_missing(const fv_cache_list *list) {
    return fv_max(list->length / FV_PAGE_KEYS, list->count > 0 ? list->page[list->count - 1].at + 1 : 0);
}

static int64_t missing(const fv_cache_list *list, int64_t tokens) {
    return tokens > 0 ? fv_max(fv_ceil_div(list->length + tokens, FV_PAGE_KEYS) - first_missing(list), 0) : 0;
}

/* Queries from a list's next token on see no page before this one. */
static int64_t behind_window(const fovea_kv_cache *c, const fv_cache_list *list, int64_t layer) {
    const int64_t window = c->windows ? c->windows[layer] : -1;
    return window < 0 || list->length < window ? 0 : (list->length - window) / FV_PAGE_KEYS;
}

/* Pages that all lists lack, added up until they are more than the cache could have. */
static fovea_status count_missing(const fovea_kv_cache *c, const fv_growth *g, int64_t *pages) {
    for (const fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            const fv_cache_list *list = &s->layer[layer];
            if (s->tokens > FV_CACHE_LONGEST - list->length)
                return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld more tokens are too many", (long long)s->tokens);
            if (*pages <= c->desc.max_pages)
                *pages += missing(list, s->tokens);
        }
    return FOVEA_OK;
}

/* Counts references down, or up again: of pages that lists leave behind windows, then of begun ones. Of the former
 * those that nobody has then are free; of the latter the last of their sequences keeps them, and all others need a
 * copy. */
static void let_go(fovea_kv_cache *c, const fv_growth *g, int by, int64_t *freed, int64_t *copies) {
    for (const fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && s->tokens > 0; layer++) {
            const fv_cache_list *list = &s->layer[layer];
            const int64_t end = fv_list_find(list, behind_window(c, list, layer));
            for (int64_t i = 0; i < end; i++)
                *freed += (c->references[list->page[i].page] += by) == 0;
        }
    for (const fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && s->tokens > 0; layer++) {
            const fv_cache_page *page = begun(&s->layer[layer]);
            *copies += page && (c->references[page->page] += by) > 0;
        }
}

static fovea_status reckon(fovea_kv_cache *c, const fv_growth *g) {
    int64_t needed = 0, freed = 0, copies = 0, unused = 0;
    fovea_status status = count_missing(c, g, &needed);
    if (status != FOVEA_OK)
        return status;
    if (needed <= c->desc.max_pages) {
        let_go(c, g, -1, &freed, &copies);
        let_go(c, g, 1, &unused, &unused);
        needed += copies;
    }
    if (needed > fv_pool_left(c) + freed)
        return fv_fail(FOVEA_ERROR_FULL, "the cache has %lld of %lld pages left; these tokens need %s%lld",
                       (long long)fv_pool_left(c), (long long)c->desc.max_pages,
                       needed > c->desc.max_pages ? "at least " : "", (long long)needed);
    for (fv_cache_sequence *s = g->first; s && status == FOVEA_OK; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && status == FOVEA_OK; layer++) {
            fv_cache_list *list = &s->layer[layer];
            status = fv_list_room(list, list->count + missing(list, s->tokens));
        }
    return status;
}

fovea_status fv_growth_begin(fovea_kv_cache *c, const fv_growth *g) {
    const fovea_status status = reckon(c, g);
    if (status != FOVEA_OK)
        return status;
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && s->tokens > 0; layer++) {
            fv_cache_list *list = &s->layer[layer];
            const int64_t behind = behind_window(c, list, layer), gone = fv_list_find(list, behind);
            c->stats.window_pages += gone;
            fv_list_drop(c, list, 0, gone);
            list->behind = fv_max(list->behind, behind);
        }
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && s->tokens > 0; layer++) {
            fv_cache_list *list = &s->layer[layer];
            fv_cache_page *page = begun(list);
            if (page && c->references[page->page] > 1) {
                c->stats.copied_pages++;
                list->origin = page->page;
                page->page = fv_pool_take(c);
                fv_pool_drop(c, list->origin); /* so that the last of its holders, if they are all here, keeps it */
            }
            for (int64_t pages = missing(list, s->tokens); pages > 0; pages--)
                fv_list_add(c, list, first_missing(list));
        }
    for (const fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++)
            if (s->layer[layer].origin != FV_PAGE_NONE)
                fv_pool_hold(c, s->layer[layer].origin); /* until it is copied */
    return FOVEA_OK;
}

/* Copies the first keys of a head; where pages are interleaved, the rest of their group, too. */
static void copy_part(const fovea_kv_cache *c, fv_page_part part, int32_t from, int32_t to, int64_t head,
                      int64_t keys) {
    const int64_t whole = c->pages.part[part].word ? fv_round_up(keys, c->pages.part[part].group) : keys;
    if (c->pages.part[part].row > 0)
        memcpy(fv_cache_at(c, part, to, head, 0), fv_cache_at(c, part, from, head, 0),
               (size_t)(whole * c->pages.part[part].step));
}

void fv_growth_copy(const fovea_kv_cache *c, const fv_growth *g) {
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            const fv_cache_list *list = &s->layer[layer];
            const int64_t keys = list->length % FV_PAGE_KEYS;
            for (int64_t h = 0; h < c->desc.kv_heads && list->origin != FV_PAGE_NONE; h++)
                for (fv_page_part part = 0; part < FV_PAGE_PARTS; part++)
                    copy_part(c, part, list->origin, begun(list)->page, h, keys);
        }
}

void fv_growth_end(fovea_kv_cache *c, const fv_growth *g) {
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            fv_pool_drop(c, s->layer[layer].origin);
            s->layer[layer].origin = FV_PAGE_NONE;
        }
}
