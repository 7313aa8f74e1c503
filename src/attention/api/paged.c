/* Attention over pages (paged.h). */
#include "attention/api/paged.h"

#include "attention/api/relative_check.h"
#include "attention/visible/visible.h"

/* Where the parts of the room begin. */
typedef struct parts {
    int64_t lens, first, table, bits, bytes; /* [batch], [batch], [batch][pages], [batch][bits_stride] */
    int64_t pages, bits_stride;
} parts;

static parts parts_of(const fovea_attention_desc *d) {
    const int64_t word = (int64_t)sizeof(int64_t);
    parts p = {.pages = fv_ceil_div(d->kv_len, d->page_keys), .bits_stride = fv_ceil_div(d->kv_len, 8)};
    int64_t at = 0, entries = 0, bytes = 0;
    const bool fits = fv_multiply(d->batch, p.pages, &entries) && fv_multiply(d->batch, p.bits_stride, &bytes);
    p.lens = fv_reserve(&at, d->batch, word);
    p.first = fv_reserve(&at, d->batch, word);
    p.table = fv_reserve(&at, entries, word);
    p.bits = fv_reserve(&at, bytes, 1);
    p.bytes = fits ? at : -1;
    return p;
}

int64_t fv_paged_bytes(const fovea_attention_desc *d) { return d->page_keys > 0 ? parts_of(d).bytes : 0; }

/* -------------------------------------------------------------------------------------------------------- checks -- */

static fovea_status check_cache(const fovea_attention_desc *d, const fovea_attention_args *args) {
    const fovea_kv_cache_desc *c = fv_cache_desc(args->cache);
    const struct {
        const char *name;
        int64_t plan, cache;
    } sizes[] = {{"page_keys", d->page_keys, FOVEA_KV_PAGE_KEYS},
                 {"kv_heads", d->kv_heads, c->kv_heads},
                 {"head_dim", d->head_dim, c->head_dim},
                 {"value_dim", d->value_dim, c->value_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].plan != sizes[i].cache)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s of the plan is %lld, of the cache %lld", sizes[i].name,
                           (long long)sizes[i].plan, (long long)sizes[i].cache);
    if (c->k_dtype != d->k_dtype || c->v_dtype != d->v_dtype)
        return fv_fail(FOVEA_ERROR_DTYPE, "%s of the plan is %s, of the cache %s",
                       c->k_dtype != d->k_dtype ? "k_dtype" : "v_dtype",
                       fv_enum_name(FV_ENUM_dtype, (int)(c->k_dtype != d->k_dtype ? d->k_dtype : d->v_dtype)),
                       fv_enum_name(FV_ENUM_dtype, (int)(c->k_dtype != d->k_dtype ? c->k_dtype : c->v_dtype)));
    if (d->batch > 0 && !args->cache_sequences)
        return fv_fail(FOVEA_ERROR_NULL, "cache_sequences is NULL");
    return FOVEA_OK;
}

/* Pages of a plan's types and sizes. */
static fv_pages pages_of(const fovea_attention_desc *d) {
    return (fv_pages){.dtype = {d->k_dtype, d->v_dtype},
                      .channels = {d->head_dim, d->value_dim},
                      .kv_heads = d->kv_heads,
                      .page_keys = d->page_keys};
}

static fovea_status check_pages(const fovea_attention_desc *d, const fovea_attention_args *args,
                                fv_span spans[FV_PAGED_SPANS]) {
    fv_pages pages = pages_of(d);
    fovea_kv_pages own;
    fovea_status status = fv_pages_read(args->pages, false, &own, &pages, spans);
    if (status == FOVEA_OK && d->batch > 0 && (!args->kv_lens || !own.table))
        status = fv_fail(FOVEA_ERROR_NULL, "%s is NULL, and pages are given",
                         args->kv_lens ? "the table of pages" : "kv_lens");
    int64_t entries = 0;
    for (int64_t b = 0; b < d->batch && status == FOVEA_OK; b++) {
        if (args->kv_lens[b] < 0 || args->kv_lens[b] > d->kv_len)
            break; /* found when lengths are checked */
        status = fv_pages_check_table(&own, d->page_keys, b, 0, args->kv_lens[b]);
        entries = fv_max(entries, fv_pages_table(&own, b) - own.table + fv_ceil_div(args->kv_lens[b], d->page_keys));
    }
    spans[FV_PAGE_PARTS] = (fv_span){"the table of pages", (uintptr_t)own.table, (uintptr_t)(own.table + entries)};
    if (own.starts)
        spans[FV_PAGE_PARTS + 1] =
            (fv_span){"starts of the table", (uintptr_t)own.starts, (uintptr_t)(own.starts + d->batch)};
    return status;
}

fovea_status fv_paged_check(const fovea_attention_desc *d, const fovea_attention_args *args,
                            fv_span spans[FV_PAGED_SPANS]) {
    for (int i = 0; i < FV_PAGED_SPANS; i++)
        spans[i] = (fv_span){"pages", 0, 0};
    if (d->page_keys == 0) {
        if (args->cache || args->pages)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but desc.page_keys is 0",
                           args->cache ? "cache" : "pages");
        return FOVEA_OK;
    }
    if (!args->cache == !args->pages)
        return fv_fail(args->cache ? FOVEA_ERROR_ARGUMENT : FOVEA_ERROR_NULL,
                       "desc.page_keys is %lld: one of cache and pages must be given", (long long)d->page_keys);
    const struct {
        const char *name;
        bool given;
    } refused[] = {{"k", args->k.data},
                   {"v", args->v.data},
                   {"kv_starts", args->kv_starts},
                   {"kv_cu_seqlens", args->kv_cu_seqlens}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].given)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but keys are in pages (desc.page_keys is %lld)",
                           refused[i].name, (long long)d->page_keys);
    return args->cache ? check_cache(d, args) : check_pages(d, args, spans);
}

/* -------------------------------------------------------------------------------------------------------- views -- */

/* Keys or values of pages. */
static fv_kv_side side_of(const fv_pages *from, int side, const parts *p, const int64_t *table) {
    const int64_t bits = fv_dtype_bits(from->dtype[side]);
    const int scales = FV_KEY_SCALES + side;
    return (fv_kv_side){.data = from->part[side].at,
                        .dtype = from->dtype[side],
                        .layout = from->part[side].word > 0 ? FV_KV_INTERLEAVED : FV_KV_ROWS,
                        .channels = from->channels[side],
                        .scales = from->part[scales].at,
                        .scale_stride = {from->part[scales].page, from->part[scales].head, from->part[scales].step},
                        .stride = {from->part[side].page * 8 / bits, from->part[side].head * 8 / bits,
                                   from->part[side].step * (from->part[side].word > 0 ? FV_KEY_GROUP : 1) * 8 / bits},
                        .pages = table,
                        .pages_stride = p->pages,
                        .page_keys = from->page_keys};
}

static fv_kv kv_of(const fv_pages *from, const parts *p, const int64_t *table) {
    return (fv_kv){.k = side_of(from, 0, p, table), .v = side_of(from, 1, p, table), .nodes = from->nodes};
}

/* Are there the keys that the first query of each sequence sees? Others see later ones. */
static fovea_status check_visible(const fovea_attention_plan *plan, const fv_paged *paged, const int64_t *first) {
    const fovea_attention_desc *d = &plan->desc;
    for (int64_t b = 0; b < d->batch; b++) {
        const fv_sequence s = fv_attention_sequence(d, &paged->args, b);
        const int64_t begin = fv_max(s.offset - d->window_left, 0);
        if (begin < first[b] && s.q_len > 0 && s.kv_len > 0)
            return fv_fail(FOVEA_ERROR_ARGUMENT,
                           "a query of sequence %lld sees key %lld; keys before %lld are gone behind its window",
                           (long long)paged->args.cache_sequences[b], (long long)begin, (long long)first[b]);
    }
    return FOVEA_OK;
}

static fovea_status open_cache(const fovea_attention_plan *plan, const fovea_attention_args *args, char *room,
                               fv_paged *paged) {
    const fovea_attention_desc *d = &plan->desc;
    const parts p = parts_of(d);
    fv_cache_reading r = {.layer = args->cache_layer,
                          .count = d->batch,
                          .sequences = args->cache_sequences,
                          .kv_lens = args->kv_lens,
                          .most_keys = d->kv_len,
                          .table_stride = p.pages,
                          .bits_stride = p.bits_stride,
                          .lens = (int64_t *)(void *)(room + p.lens),
                          .first = (int64_t *)(void *)(room + p.first),
                          .table = (int64_t *)(void *)(room + p.table),
                          .bits = (uint8_t *)room + p.bits};
    fovea_status status = fv_cache_read(args->cache, &r);
    if (status != FOVEA_OK)
        return status;
    paged->kv = kv_of(fv_cache_pages(args->cache), &p, r.table);
    paged->args.kv_lens = r.lens;
    bool behind = r.evicts;
    for (int64_t b = 0; b < d->batch; b++)
        behind = behind || r.first[b] > 0;
    if (behind && args->scores && args->scores->kind < FOVEA_SCORES_BIASED)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "scores of a kind before the mask need all keys, and some are gone from the cache");
    if (r.evicts) {
        if (d->mask != FOVEA_MASK_NONE && d->mask != FOVEA_MASK_ADDITIVE)
            return fv_fail(FOVEA_ERROR_UNSUPPORTED, "keys were evicted, which cannot be combined with %s",
                           fv_enum_name(FV_ENUM_mask_kind, (int)d->mask));
        paged->kv.attended = r.bits;
        paged->kv.attended_stride = p.bits_stride;
    }
    status = check_visible(plan, paged, r.first);
    return status == FOVEA_OK ? fv_relative_check_sequences(d, &paged->args) : status;
}

static fovea_status open_pages(const fovea_attention_plan *plan, const fovea_attention_args *args, char *room,
                               fv_paged *paged) {
    const fovea_attention_desc *d = &plan->desc;
    const parts p = parts_of(d);
    int64_t *table = (int64_t *)(void *)(room + p.table);
    fv_pages pages = pages_of(d);
    fovea_kv_pages own;
    fv_span unused[FV_PAGE_PARTS];
    const fovea_status status = fv_pages_read(args->pages, false, &own, &pages, unused);
    if (status != FOVEA_OK)
        return status;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i * d->page_keys < args->kv_lens[b]; i++)
            table[b * p.pages + i] = fv_pages_table(&own, b)[i];
    paged->kv = kv_of(&pages, &p, table);
    return FOVEA_OK;
}

fovea_status fv_paged_open(const fovea_attention_plan *plan, const fovea_attention_args *args, void *room,
                           fv_paged *paged) {
    paged->args = *args;
    return (args->cache ? open_cache : open_pages)(plan, args, room, paged);
}
