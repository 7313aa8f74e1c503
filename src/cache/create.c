/* Caches: made, described, freed (pool.h). */
#include "cache/pool.h"

#include <stdlib.h>
#include <string.h>

void fovea_kv_cache_desc_init_size(fovea_kv_cache_desc *desc, size_t size) {
    const fovea_kv_cache_desc defaults = {.layers = 1, .k_dtype = FOVEA_DTYPE_F32, .v_dtype = FOVEA_DTYPE_F32};
    fv_struct_init(desc, size, &defaults, sizeof defaults);
}

void fovea_kv_stats_init_size(fovea_kv_stats *stats, size_t size) {
    const fovea_kv_stats nothing = {0};
    fv_struct_init(stats, size, &nothing, sizeof nothing);
}

void fovea_kv_pages_init_size(fovea_kv_pages *pages, size_t size) {
    const fovea_kv_pages nothing = {0};
    fv_struct_init(pages, size, &nothing, sizeof nothing);
}

static fovea_status check_type(const char *name, fovea_dtype dtype) {
    if ((dtype == FOVEA_DTYPE_I8 && fv_dtype_built(dtype)) || fv_type_of(dtype) != FV_TYPE_COUNT)
        return FOVEA_OK;
    return fv_dtype_refuse(name, dtype, "a cache keeps FOVEA_DTYPE_F32, _BF16, _F16 and _I8");
}

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
    fovea_status status = check_type("k_dtype", d->k_dtype);
    if (status == FOVEA_OK)
        status = check_type("v_dtype", d->v_dtype);
    if (status != FOVEA_OK)
        return status;
    if (d->k_dtype == FOVEA_DTYPE_I8 && d->head_dim > FV_I8_CHANNELS)
        return fv_fail(FOVEA_ERROR_SHAPE, "head_dim is %lld; with keys of FOVEA_DTYPE_I8 it must be at most %d",
                       (long long)d->head_dim, FV_I8_CHANNELS);
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

/* Bytes of a token's row of channels, and of its scale. */
static bool row_bytes(int64_t channels, fovea_dtype dtype, int64_t *row, int64_t *scale) {
    *scale = dtype == FOVEA_DTYPE_I8 ? (int64_t)sizeof(float) : 0;
    return fv_multiply(channels, fv_dtype_size(dtype), row);
}

/* A part of a head of a page, behind those before it. */
static bool lay_out_part(fovea_kv_cache *c, fv_cache_part part) {
    int64_t row = c->part[part].row, bytes;
    if (part == FV_KEYS && c->word)
        row = fv_round_up(row, c->word);
    c->part[part].offset = c->head_bytes;
    return fv_multiply(row, FV_PAGE_KEYS, &bytes) && fv_add(c->head_bytes, bytes, &c->head_bytes) &&
           fv_add(c->head_bytes, FV_ALIGNMENT - 1, &c->head_bytes) &&
           (c->head_bytes = fv_round_down(c->head_bytes, FV_ALIGNMENT)) >= 0;
}

/* Sizes of a page, and how many there are. */
static fovea_status lay_out(fovea_kv_cache *c) {
    fovea_kv_cache_desc *d = &c->desc;
    bool fits = row_bytes(d->head_dim, d->k_dtype, &c->part[FV_KEYS].row, &c->part[FV_KEY_SCALES].row) &&
                row_bytes(d->value_dim, d->v_dtype, &c->part[FV_VALUES].row, &c->part[FV_VALUE_SCALES].row);
    if (fits && c->part[FV_KEYS].row <= FV_MOST_LANE_BYTES)
        c->word = fv_interleaved_word(d->k_dtype) * fv_dtype_size(d->k_dtype);
    for (fv_cache_part part = 0; part < FV_CACHE_PARTS && fits; part++)
        fits = lay_out_part(c, part);
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
    return all;
}

static void free_cache(fovea_kv_cache *c) {
    free(c->slot);
    free(c->windows);
    free(c->free);
    free(c->references);
    free(c->pool);
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
    const bool spread = made->placement.how == FOVEA_PLACEMENT_SPREAD; /* all pages of a head together */
    made->page_stride = spread ? made->head_bytes : made->page_bytes;
    made->head_stride = spread ? made->head_bytes * made->desc.max_pages : made->head_bytes;
    const bool memory = status == FOVEA_OK && allocate(made);
    if (memory)
        status = fv_placement_apply(ctx, &made->placement, made->pool, (int64_t)pool_bytes(made) / desc.kv_heads,
                                    desc.kv_heads);
    if (status == FOVEA_OK && (!memory || pthread_mutex_init(&made->lock, NULL) != 0))
        status = fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a cache of %lld pages of %lld bytes",
                         (long long)made->desc.max_pages, (long long)made->page_bytes);
    if (status != FOVEA_OK) {
        free_cache(made);
        return status;
    }
    fv_cache_enlist(made);
    *cache = made;
    return FOVEA_OK;
}

void fovea_kv_cache_clear(fovea_kv_cache *c) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    for (int64_t i = 0; i < c->slots; i++)
        if (c->slot[i])
            fv_cache_close(c, c->slot[i]);
    pthread_mutex_unlock(&c->lock);
}

void fovea_kv_cache_destroy(fovea_kv_cache *c) {
    if (!c)
        return;
    fv_cache_delist(c);
    fovea_kv_cache_clear(c);
    pthread_mutex_destroy(&c->lock);
    free_cache(c);
}

fovea_status fovea_kv_cache_stats(fovea_kv_cache *c, fovea_kv_stats *stats) {
    if (!c || !stats)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "stats" : "cache");
    const fv_struct type = FV_STRUCT(fovea_kv_stats);
    const fovea_status status = fv_struct_check(type, stats);
    if (status != FOVEA_OK)
        return status;
    pthread_mutex_lock(&c->lock);
    fovea_kv_stats own = c->stats;
    pthread_mutex_unlock(&c->lock);
    own.page_bytes = c->page_bytes;
    own.max_pages = c->desc.max_pages;
    own.token_bytes = c->desc.layers * fv_cache_token_bytes(c);
    fv_struct_write(type, stats, &own);
    return FOVEA_OK;
}

const fovea_kv_cache_desc *fv_cache_desc(const fovea_kv_cache *c) { return &c->desc; }

int64_t fv_cache_token_bytes(const fovea_kv_cache *c) {
    int64_t bytes = 0;
    for (fv_cache_part part = 0; part < FV_CACHE_PARTS; part++)
        bytes += c->part[part].row;
    return bytes * c->desc.kv_heads;
}

/* Of a part that there is. */
static const float *scales_of(const fovea_kv_cache *c, fv_cache_part part) {
    return c->part[part].row > 0 ? (const float *)(const void *)fv_cache_at(c, part, 0, 0, 0) : NULL;
}

fv_cache_pages fv_cache_pages_of(const fovea_kv_cache *c) {
    const int64_t k = fv_dtype_size(c->desc.k_dtype), v = fv_dtype_size(c->desc.v_dtype);
    return (fv_cache_pages){.k = fv_cache_at(c, FV_KEYS, 0, 0, 0),
                            .v = fv_cache_at(c, FV_VALUES, 0, 0, 0),
                            .k_page = c->page_stride / k,
                            .v_page = c->page_stride / v,
                            .k_head = c->head_stride / k,
                            .v_head = c->head_stride / v,
                            .k_group = c->word ? FV_KEY_GROUP * fv_round_up(c->part[FV_KEYS].row, c->word) / k : 0,
                            .k_scales = scales_of(c, FV_KEY_SCALES),
                            .v_scales = scales_of(c, FV_VALUE_SCALES),
                            .scale_page = c->page_stride / (int64_t)sizeof(float),
                            .scale_head = c->head_stride / (int64_t)sizeof(float),
                            .nodes = c->placement.how == FOVEA_PLACEMENT_SPREAD ? &c->ctx->threads : NULL};
}
