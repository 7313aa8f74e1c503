/* The cache of a decoding that is timed: sequences, of which the first tokens are shared if there is a prefix, in sets
 * of layers. */
#include <stdlib.h>
#include <string.h>

#include "decode_bench.h"
#include "read_speed.h"

#include "cache/cache.h"
#include "context/context.h"

/* ------------------------------------------------------------------------------------------------- element types -- */

/* How many times as fast as floats the CPU multiplies keys of the type: of integers two planes, in four times as many
 * lanes. */
double decode_key_rate(const decode *self) { return fv_dtype_paged(self->desc.k_dtype) ? 2 : 1; }

double decode_token_bytes(const decode *self) {
    const fovea_attention_desc *d = &self->desc;
    return (double)(fv_stored_bytes(d->k_dtype, true, d->head_dim) + fv_stored_bytes(d->v_dtype, false, d->value_dim));
}

double decode_set_bytes(const decode *self) {
    const fovea_attention_desc *d = &self->desc;
    const int64_t keys = d->batch * d->kv_len - (d->batch - 1) * self->prefix;
    return (double)self->layers * (double)(d->kv_heads * keys) * decode_token_bytes(self);
}

/* ------------------------------------------------------------------------------------------------------- appends -- */

fovea_status decode_append(const decode *self, fovea_kv_cache *cache, int64_t layer, int64_t count,
                           const int64_t *sequences, int64_t from, int64_t tokens) {
    const fovea_attention_desc *d = &self->desc;
    char *numbers = (char *)self->numbers + from * fv_dtype_size(d->dtype);
    fovea_kv_append_args append;
    fovea_kv_append_args_init(&append);
    append.layer = layer;
    append.count = count;
    append.sequences = sequences;
    append.k = fovea_tensor_bhtd(numbers, d->dtype, count, d->kv_heads, tokens, d->head_dim);
    append.v = fovea_tensor_bhtd(numbers, d->dtype, count, d->kv_heads, tokens, d->value_dim);
    return fovea_kv_cache_append(cache, &append);
}

/* Tokens [begin, end) of a sequence in all layers: a page at once, each with other numbers. */
static fovea_status fill(const decode *self, int64_t b, int64_t begin, int64_t end) {
    fovea_status status = FOVEA_OK;
    for (int64_t layer = 0; layer < self->layers * self->sets; layer++)
        for (int64_t at = begin, count; at < end && status == FOVEA_OK; at += count) {
            const int64_t page = at / FOVEA_KV_PAGE_KEYS, place = (b * 31 + layer * 7 + page) * 8191;
            count = fv_min((page + 1) * FOVEA_KV_PAGE_KEYS, end) - at;
            status = decode_append(self, self->cache, layer, 1, &self->sequences[b], place % (self->number_count / 2),
                                   count);
        }
    return status;
}

/* Numbers for a page of a sequence, or a token of all, wherever they begin in the first half. */
static const char *make_numbers(decode *self) {
    const fovea_attention_desc *d = &self->desc;
    const int64_t channels = fv_max(d->head_dim, d->value_dim),
                  tokens = fv_max(FOVEA_KV_PAGE_KEYS, d->batch * d->q_len);
    self->number_count = 2 * d->kv_heads * tokens * channels;
    self->numbers = bench_numbers(self->number_count, d->dtype, -2, 2, 2);
    return self->numbers ? NULL : "no memory";
}

/* ----------------------------------------------------------------------------------------------------- the cache -- */

static fovea_kv_cache_desc describe(const decode *self, int64_t layers, int64_t pages) {
    const fovea_attention_desc *d = &self->desc;
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    desc.layers = layers;
    desc.kv_heads = d->kv_heads;
    desc.head_dim = d->head_dim;
    desc.value_dim = d->value_dim;
    desc.k_dtype = d->k_dtype;
    desc.v_dtype = d->v_dtype;
    desc.max_pages = pages;
    return desc;
}

/* Pages of a layer: those of the prefix, and those of each sequence, the page that forks share in part among them. */
static int64_t pages_of(const decode *self) {
    const int64_t page = FOVEA_KV_PAGE_KEYS, room = self->call == DECODE_ATTENTION ? 0 : DECODE_ROOM;
    const int64_t shared = self->prefix / page, all = fv_ceil_div(self->desc.kv_len + room, page);
    return fv_ceil_div(self->prefix, page) + self->desc.batch * (all - shared);
}

const char *decode_make_cache(decode *self) {
    const fovea_attention_desc *d = &self->desc;
    const double cold = (double)peak_cold_bytes(self->base.context->cpu.l3_reported);
    self->sets = fv_min((int64_t)(cold / decode_set_bytes(self)) + 1, DECODE_MOST_SETS);
    const int64_t layers = self->layers * self->sets;
    /* decode_check_append() has one page in each layer of the first set. */
    const fovea_kv_cache_desc desc = describe(self, layers, layers * pages_of(self) + self->layers);
    self->sequences = bench_alloc(d->batch * (int64_t)sizeof *self->sequences);
    self->lens = bench_alloc(d->batch * (int64_t)sizeof *self->lens);
    const char *error = make_numbers(self);
    if (error != NULL || self->sequences == NULL || self->lens == NULL)
        return "no memory";
    fovea_status status = fovea_kv_cache_create(self->base.context, &desc, &self->cache);
    for (int64_t b = 0; b < d->batch && status == FOVEA_OK; b++) {
        const bool forks = b > 0 && self->prefix > 0;
        self->lens[b] = d->kv_len;
        status = forks ? fovea_kv_cache_fork(self->cache, self->sequences[0], &self->sequences[b])
                       : fovea_kv_cache_add(self->cache, &self->sequences[b]);
        if (status == FOVEA_OK && !forks)
            status = fill(self, b, 0, self->prefix > 0 ? self->prefix : d->kv_len);
    }
    for (int64_t b = 0; b < d->batch && status == FOVEA_OK && self->prefix > 0; b++)
        status = fill(self, b, self->prefix, d->kv_len);
    return status == FOVEA_OK ? NULL : fovea_error_detail();
}

/* A sequence with one append in each layer of the first set, as bytes; then it is removed. */
static fovea_status save_appended(const decode *self, fovea_kv_cache *cache, void **bytes, size_t *size) {
    int64_t sequence;
    *bytes = NULL;
    fovea_status status = fovea_kv_cache_add(cache, &sequence);
    for (int64_t layer = 0; layer < self->layers && status == FOVEA_OK; layer++)
        status = decode_append(self, cache, layer, 1, &sequence, 0, self->desc.q_len);
    if (status == FOVEA_OK)
        status = fovea_kv_cache_save(cache, sequence, NULL, 0, size);
    if (status == FOVEA_OK && (*bytes = bench_alloc((int64_t)*size)) != NULL)
        status = fovea_kv_cache_save(cache, sequence, *bytes, *size, size);
    (void)fovea_kv_cache_remove(cache, sequence);
    return status;
}

const char *decode_check_append(decode *self) {
    fovea_context *context = NULL;
    fovea_kv_cache *alone = NULL;
    void *got = NULL, *want = NULL;
    size_t size = 0, size_alone = 1;
    const int64_t layers = self->layers * self->sets;
    const fovea_kv_cache_desc desc = describe(self, layers, self->layers);
    const char *error = bench_context(FOVEA_ISA_SCALAR, 1, &context);
    if (error == NULL && (fovea_kv_cache_create(context, &desc, &alone) != FOVEA_OK ||
                          save_appended(self, self->cache, &got, &size) != FOVEA_OK ||
                          save_appended(self, alone, &want, &size_alone) != FOVEA_OK))
        error = fovea_error_detail();
    else if (error == NULL && (got == NULL || want == NULL))
        error = "no memory";
    else if (error == NULL && (size != size_alone || memcmp(got, want, size) != 0))
        error = "WRONG: what was appended is not what scalar appends";
    free(got);
    free(want);
    fovea_kv_cache_destroy(alone);
    fovea_context_destroy(context);
    return error;
}
