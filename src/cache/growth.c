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

/* The page of a list that its next token goes to, if it is begun. */
static int64_t begun(const fv_cache_list *list) {
    return list->length % FV_PAGE_KEYS != 0 ? list->length / FV_PAGE_KEYS : -1;
}

/* Must that page be another one before the list may write to it? */
static bool needs_own(const fovea_kv_cache *c, const fv_cache_list *list, int64_t tokens) {
    const int64_t i = begun(list);
    return tokens > 0 && i >= 0 && (list->page[i] == FV_PAGE_NONE || c->references[list->page[i]] > 1);
}

static int64_t count_after(const fv_cache_list *list, int64_t tokens) {
    return fv_ceil_div(list->length + tokens, FV_PAGE_KEYS);
}

/* Pages that all need, and those that they leave; makes room in their lists. */
static fovea_status reckon(fovea_kv_cache *c, const fv_growth *g, int64_t *needed, int64_t *left) {
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            fv_cache_list *list = &s->layer[layer];
            if (s->tokens > FV_SIZE_LIMIT - list->length)
                return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld more tokens are too many", (long long)s->tokens);
            const int64_t count = count_after(list, s->tokens);
            *needed += fv_max(count - list->count, 0) + needs_own(c, list, s->tokens);
            if (*needed > c->desc.max_pages) /* no room for such a list either */
                return FOVEA_OK;
            if (g->releases && s->tokens > 0)
                *left += fv_list_leave(c, layer, list, list->length, false);
            const fovea_status status = fv_list_room(list, count);
            if (status != FOVEA_OK)
                return status;
        }
    return FOVEA_OK;
}

fovea_status fv_growth_begin(fovea_kv_cache *c, const fv_growth *g) {
    int64_t needed = 0, left = 0;
    const fovea_status status = reckon(c, g, &needed, &left);
    if (status != FOVEA_OK)
        return status;
    if (needed > fv_pool_left(c) + left)
        return fv_fail(FOVEA_ERROR_FULL, "the cache has %lld of %lld pages left; these tokens need %s%lld",
                       (long long)fv_pool_left(c), (long long)c->desc.max_pages,
                       needed > c->desc.max_pages ? "at least " : "", (long long)needed);
    for (fv_cache_sequence *s = g->first; s && g->releases; s = s->next)
        for (int64_t layer = g->layer; layer < g->end && s->tokens > 0; layer++)
            fv_list_leave(c, layer, &s->layer[layer], s->layer[layer].length, true);
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            fv_cache_list *list = &s->layer[layer];
            if (needs_own(c, list, s->tokens)) {
                int32_t *page = &list->page[begun(list)];
                c->stats.copied_pages += *page != FV_PAGE_NONE;
                list->origin = *page;
                *page = fv_pool_take(c);
            }
            while (list->count < count_after(list, s->tokens))
                list->page[list->count++] = fv_pool_take(c);
        }
    return FOVEA_OK;
}

/* The first keys of a head, and in lanes those beside them in their group. */
static void copy_part(const fovea_kv_cache *c, fv_cache_part part, int32_t from, int32_t to, int64_t head,
                      int64_t keys) {
    const bool lanes = part == FV_KEYS && c->lanes;
    const int64_t bytes = lanes ? fv_round_up(keys, FV_KEY_GROUP) * fv_round_up(c->part[part].row, FV_WORD_BYTES)
                                : keys * c->part[part].row;
    memcpy(fv_cache_at(c, part, to, head, 0), fv_cache_at(c, part, from, head, 0), (size_t)bytes);
}

void fv_growth_copy(const fovea_kv_cache *c, const fv_growth *g) {
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            const fv_cache_list *list = &s->layer[layer];
            const int64_t keys = list->length % FV_PAGE_KEYS;
            for (int64_t h = 0; h < c->desc.kv_heads && list->origin != FV_PAGE_NONE; h++)
                for (fv_cache_part part = 0; part < FV_CACHE_PARTS; part++)
                    copy_part(c, part, list->origin, list->page[begun(list)], h, keys);
        }
}

void fv_growth_end(fovea_kv_cache *c, const fv_growth *g) {
    for (fv_cache_sequence *s = g->first; s; s = s->next)
        for (int64_t layer = g->layer; layer < g->end; layer++) {
            fv_pool_drop(c, s->layer[layer].origin);
            s->layer[layer].origin = FV_PAGE_NONE;
        }
}
