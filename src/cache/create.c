/* Caches: made, described, freed (pool.h). */
#include "cache/pool.h"

#include <stdlib.h>
#include <string.h>

static fovea_status check(const fovea_kv_cache_desc *d) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"layers", d->layers}, {"kv_heads", d->kv_heads}, {"head_dim", d->head_dim}, {"value_dim", d->value_dim}};
    for (int i = 0; i < 4; i++) {
        if (sizes[i].value < 1)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s is %lld; it must be at least 1", sizes[i].name,
                           (long long)sizes[i].value);
        if (sizes[i].value > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s is %lld: too large", sizes[i].name, (long long)sizes[i].value);
    }
    fovea_status status = fv_stored_check("k_dtype", d->k_dtype, true, d->head_dim, FV_PAGE_KEYS);
    if (status == FOVEA_OK)
        status = fv_stored_check("v_dtype", d->v_dtype, false, d->value_dim, FV_PAGE_KEYS);
    if (status != FOVEA_OK)
        return status;
    if (d->max_pages < 0 || d->max_bytes < 0 || (d->max_pages > 0) == (d->max_bytes > 0))
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "max_pages is %lld and max_bytes %lld; one of them must be more than 0, the other 0",
                       (long long)d->max_pages, (long long)d->max_bytes);
    if (d->rope && d->rope->desc.rotary_dim > d->head_dim)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "the rope rotates %lld channels, but head_dim is %lld",
                       (long long)d->rope->desc.rotary_dim, (long long)d->head_dim);
    for (int64_t i = 0; d->windows && i < d->layers; i++)
        if (d->windows[i] < -1)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "windows[%lld] is %lld; the least is -1 (no window)", (long long)i,
                           (long long)d->windows[i]);
    return d->placement == FOVEA_PLACEMENT_COPIES
               ? fv_fail(FOVEA_ERROR_UNSUPPORTED, "a cache takes no FOVEA_PLACEMENT_COPIES")
               : FOVEA_OK;
}

/* Sizes of a page, and how many there are. */
static fovea_status lay_out(fovea_kv_cache *c) {
    fovea_kv_cache_desc *d = &c->desc;
    c->pages = (fv_pages){.dtype = {d->k_dtype, d->v_dtype},
                          .channels = {d->head_dim, d->value_dim},
                          .kv_heads = d->kv_heads,
                          .page_keys = FV_PAGE_KEYS};
    fv_pages_lay_out(&c->pages, false);
    bool fits = true;
    for (fv_page_part part = 0; part < FV_PAGE_PARTS && fits; part++) {
        int64_t bytes;
        fits = fv_multiply(c->pages.part[part].step, FV_PAGE_KEYS, &bytes) &&
               fv_add(c->head_bytes, bytes + FV_ALIGNMENT - 1, &c->head_bytes);
        c->head_bytes = fv_round_down(c->head_bytes, FV_ALIGNMENT);
    }
    if (!fits || !fv_multiply(c->head_bytes, d->kv_heads, &c->page_bytes) || c->page_bytes > PTRDIFF_MAX / 2)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "a page of %lld heads of %lld and %lld channels is too large",
                       (long long)d->kv_heads, (long long)d->head_dim, (long long)d->value_dim);
    const int64_t bytes = d->max_bytes, most = fv_min(INT32_MAX, PTRDIFF_MAX / 2 / c->page_bytes);
    if (bytes > 0)
        d->max_pages = bytes / c->page_bytes;
    d->max_bytes = 0;
    if (d->max_pages == 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "max_bytes is %lld, less than one page of %lld bytes", (long long)bytes,
                       (long long)c->page_bytes);
    if (d->max_pages > most)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s is %lld; with pages of %lld bytes it must be at most %lld",
                       bytes > 0 ? "max_bytes" : "max_pages", (long long)(bytes > 0 ? bytes : d->max_pages),
                       (long long)c->page_bytes, (long long)(bytes > 0 ? most * c->page_bytes : most));
    return FOVEA_OK;
}

static size_t pool_bytes(const fovea_kv_cache *c) { return (size_t)c->desc.max_pages * (size_t)c->page_bytes; }

/* Where parts begin: heads of a page together, or, spread to nodes, pages of a head. */
static void place(fovea_kv_cache *c) {
    const bool spread = c->placement.how == FOVEA_PLACEMENT_SPREAD;
    char *at = c->pool;
    for (fv_page_part part = 0; part < FV_PAGE_PARTS; part++) {
        c->pages.part[part].at = c->pages.part[part].row > 0 ? at : NULL;
        c->pages.part[part].page = spread ? c->head_bytes : c->page_bytes;
        c->pages.part[part].head = spread ? c->head_bytes * c->desc.max_pages : c->head_bytes;
        at += fv_round_up(c->pages.part[part].step * FV_PAGE_KEYS, FV_ALIGNMENT);
    }
    c->pages.nodes = spread ? &c->ctx->threads : NULL;
}

static bool allocate(fovea_kv_cache *c) {
    const fovea_kv_cache_desc *d = &c->desc;
    const size_t pages = (size_t)d->max_pages, windows = (size_t)d->layers * sizeof *c->windows;
    c->pool = fv_allocate_pages(pool_bytes(c));
    c->references = calloc(pages, sizeof *c->references);
    c->free = malloc(pages * sizeof *c->free);
    if (d->windows && (c->windows = malloc(windows)) != NULL)
        memcpy(c->windows, d->windows, windows);
    const bool all = c->pool && c->references && c->free && (!d->windows || c->windows);
    c->desc.windows = c->windows;
    if (all)
        place(c);
    return all;
}

static void free_cache(fovea_kv_cache *c) {
    free(c->slot);
    free(c->windows);
    free(c->free);
    free(c->references);
    fv_free_pages(c->pool);
    free(c);
}

fovea_status fovea_kv_cache_create(const fovea_context *ctx, const fovea_kv_cache_desc *given, fovea_kv_cache **cache) {
    if (!cache)
        return fv_fail(FOVEA_ERROR_NULL, "cache is NULL");
    *cache = NULL;
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "desc" : "ctx");
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_kv_cache_desc), given, &desc);
    if (status == FOVEA_OK)
        status = check(&desc);
    if (status != FOVEA_OK)
        return status;
    fovea_kv_cache *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a cache");
    made->ctx = ctx;
    made->desc = desc;
    status = lay_out(made);
    if (status == FOVEA_OK)
        status = fv_placement_select(ctx, desc.placement, desc.placement_node, &made->placement);
    const bool memory = status == FOVEA_OK && allocate(made);
    if (memory)
        status = fv_placement_apply(ctx, &made->placement, made->pool, (int64_t)pool_bytes(made) / desc.kv_heads,
                                    desc.kv_heads);
    if (status == FOVEA_OK && (!memory || !fv_mutex_init(&made->lock)))
        status = fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a cache of %lld pages of %lld bytes",
                         (long long)made->desc.max_pages, (long long)made->page_bytes);
    if (status != FOVEA_OK) {
        free_cache(made);
        return status;
    }
    fv_fork_enlist(&made->forks, &made->lock);
    *cache = made;
    return FOVEA_OK;
}

void fovea_kv_cache_clear(fovea_kv_cache *c) {
    if (!c)
        return;
    fv_mutex_lock(&c->lock);
    for (int64_t i = 0; i < c->slots; i++)
        if (c->slot[i])
            fv_cache_close(c, c->slot[i]);
    fv_mutex_unlock(&c->lock);
}

void fovea_kv_cache_destroy(fovea_kv_cache *c) {
    if (!c)
        return;
    fv_fork_delist(&c->forks);
    fovea_kv_cache_clear(c);
    fv_mutex_destroy(&c->lock);
    free_cache(c);
}

fovea_status fovea_kv_cache_stats(fovea_kv_cache *c, fovea_kv_stats *stats) {
    if (!c || !stats)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "stats" : "cache");
    const fv_struct type = FV_STRUCT(fovea_kv_stats);
    const fovea_status status = fv_struct_check(type, stats);
    if (status != FOVEA_OK)
        return status;
    fv_mutex_lock(&c->lock);
    fovea_kv_stats own = c->stats;
    fv_mutex_unlock(&c->lock);
    own.page_bytes = c->page_bytes;
    own.max_pages = c->desc.max_pages;
    own.token_bytes = c->desc.layers * fv_cache_token_bytes(c);
    fv_struct_write(type, stats, &own);
    return FOVEA_OK;
}

const fovea_kv_cache_desc *fv_cache_desc(const fovea_kv_cache *c) { return &c->desc; }

int64_t fv_cache_token_bytes(const fovea_kv_cache *c) {
    int64_t bytes = 0;
    for (fv_page_part part = 0; part < FV_PAGE_PARTS; part++)
        bytes += c->pages.part[part].row;
    return bytes * c->desc.kv_heads;
}

const fv_pages *fv_cache_pages(const fovea_kv_cache *c) { return &c->pages; }
