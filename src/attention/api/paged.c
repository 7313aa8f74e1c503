/* Attention over pages (paged.h). */
#include "attention/api/paged.h"

#include "attention/api/relative_check.h"
#include "attention/visible/visible.h"
#include "cache/cache.h"

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

/* Entries of a caller's table that a sequence needs. */
static fovea_status check_table(const fovea_attention_desc *d, const fovea_kv_pages *p, int64_t sequence,
                                int64_t keys) {
    const int64_t first = p->starts ? p->starts[sequence] : sequence * p->table_stride;
    if (p->starts && first < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "starts[%lld] is %lld; it must be at least 0", (long long)sequence,
                       (long long)first);
    if (!p->starts && fv_ceil_div(keys, d->page_keys) > p->table_stride)
        return fv_fail(FOVEA_ERROR_SHAPE, "kv_lens[%lld] is %lld: that is more than %lld pages of %lld keys",
                       (long long)sequence, (long long)keys, (long long)p->table_stride, (long long)d->page_keys);
    for (int64_t i = 0; i * d->page_keys < keys; i++)
        if (p->table[first + i] < 0 || p->table[first + i] >= p->k.shape[0])
            return fv_fail(FOVEA_ERROR_ARGUMENT, "page %lld of sequence %lld is %lld; there are %lld", (long long)i,
                           (long long)sequence, (long long)p->table[first + i], (long long)p->k.shape[0]);
    return FOVEA_OK;
}

static fovea_status check_pages(const fovea_attention_desc *d, const fovea_attention_args *args,
                                fv_span spans[FV_PAGED_SPANS]) {
    const fovea_kv_pages *p = args->pages;
    const int64_t pages = p->k.shape[0];
    if (d->k_dtype == FOVEA_DTYPE_I8 || d->v_dtype == FOVEA_DTYPE_I8)
        return fv_dtype_refuse(d->k_dtype == FOVEA_DTYPE_I8 ? "k_dtype" : "v_dtype", FOVEA_DTYPE_I8,
                               "only a cache has scales: args.pages does not take it");
    fovea_status status = fv_struct_check(FV_STRUCT(fovea_kv_pages), p);
    if (status != FOVEA_OK)
        return status;
    if (d->batch > 0 && (!args->kv_lens || !p->table))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL, and pages are given",
                       args->kv_lens ? "the table of pages" : "kv_lens");
    if (pages < 0 || pages > FV_SIZE_LIMIT || p->table_stride < 0 || p->table_stride > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "%lld pages, table_stride %lld: negative, or too large", (long long)pages,
                       (long long)p->table_stride);
    const fv_tensor_rule rules[] = {
        {"k of the pages", d->k_dtype, {pages, d->kv_heads, d->page_keys, d->head_dim}, false, false},
        {"v of the pages", d->v_dtype, {pages, d->kv_heads, d->page_keys, d->value_dim}, false, false}};
    const fovea_tensor *tensors[] = {&p->k, &p->v};
    for (int i = 0; i < 2 && status == FOVEA_OK; i++)
        if (tensors[i]->data)
            status = fv_tensor_check(tensors[i], &rules[i], &spans[i]);
        else if (pages > 0 && d->kv_heads > 0)
            status = fv_fail(FOVEA_ERROR_NULL, "%s has no data", rules[i].name);
    int64_t entries = 0;
    for (int64_t b = 0; b < d->batch && status == FOVEA_OK; b++) {
        if (args->kv_lens[b] < 0 || args->kv_lens[b] > d->kv_len)
            break; /* found when lengths are checked */
        status = check_table(d, p, b, args->kv_lens[b]);
        entries = fv_max(entries, (p->starts ? p->starts[b] : b * p->table_stride) +
                                      fv_ceil_div(args->kv_lens[b], d->page_keys));
    }
    const uintptr_t table = (uintptr_t)p->table;
    spans[2] = (fv_span){"the table of pages", table, table + (uintptr_t)entries * sizeof *p->table};
    if (p->starts)
        spans[3] = (fv_span){"starts of the table", (uintptr_t)p->starts, (uintptr_t)(p->starts + d->batch)};
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

static fv_kv_side side_of(const fovea_attention_desc *d, const parts *p, const int64_t *table) {
    return (fv_kv_side){.pages = table, .pages_stride = p->pages, .page_keys = d->page_keys};
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
    const fv_cache_pages at = fv_cache_pages_of(args->cache);
    fv_cache_reading r = {.layer = args->cache_layer,
                          .count = d->batch,
                          .sequences = args->cache_sequences,
                          .wanted = args->kv_lens,
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
    fv_kv_side k = side_of(d, &p, r.table), v = k;
    k.data = at.k, k.dtype = d->k_dtype, k.channels = d->head_dim;
    v.data = at.v, v.dtype = d->v_dtype, v.channels = d->value_dim;
    k.layout = at.k_group > 0 ? FV_KV_INTERLEAVED : FV_KV_ROWS;
    k.stride[0] = at.k_page, k.stride[1] = at.k_head, k.stride[2] = at.k_group > 0 ? at.k_group : d->head_dim;
    v.stride[0] = at.v_page, v.stride[1] = at.v_head, v.stride[2] = d->value_dim;
    k.scales = at.k_scales, v.scales = at.v_scales;
    k.scale_stride[0] = v.scale_stride[0] = at.scale_page;
    k.scale_stride[1] = v.scale_stride[1] = at.scale_head;
    paged->kv = (fv_kv){.k = k, .v = v, .nodes = at.nodes};
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

static void open_pages(const fovea_attention_plan *plan, const fovea_attention_args *args, char *room,
                       fv_paged *paged) {
    const fovea_attention_desc *d = &plan->desc;
    const fovea_kv_pages *from = args->pages;
    const parts p = parts_of(d);
    int64_t *table = (int64_t *)(void *)(room + p.table);
    for (int64_t b = 0; b < d->batch; b++) {
        const int32_t *own = from->table + (from->starts ? from->starts[b] : b * from->table_stride);
        for (int64_t i = 0; i * d->page_keys < args->kv_lens[b]; i++)
            table[b * p.pages + i] = own[i];
    }
    const fovea_tensor *tensors[] = {&from->k, &from->v};
    fv_kv_side *sides[] = {&paged->kv.k, &paged->kv.v};
    paged->kv = (fv_kv){.k = side_of(d, &p, table), .v = side_of(d, &p, table)};
    for (int i = 0; i < 2; i++) {
        sides[i]->data = tensors[i]->data;
        sides[i]->dtype = tensors[i]->dtype;
        sides[i]->channels = tensors[i]->shape[3];
        for (int axis = 0; axis < 3; axis++)
            sides[i]->stride[axis] = tensors[i]->stride[axis];
    }
}

fovea_status fv_paged_open(const fovea_attention_plan *plan, const fovea_attention_args *args, void *room,
                           fv_paged *paged) {
    paged->args = *args;
    if (args->cache)
        return open_cache(plan, args, room, paged);
    open_pages(plan, args, room, paged);
    return FOVEA_OK;
}
