/* Caches, and layers over them, refuse bad calls, after which nothing has changed. What attention over pages
 * must: test_paged_errors.c. */
#include "cache_case.h"
#include "refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_due(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s", what, fovea_status_name(got), fovea_status_name(due));
}

static void test_create(const fovea_context *ctx) {
    static const struct {
        const char *what;
        int64_t layers, heads, dim, value, pages, bytes;
        int k_dtype;
        fovea_status due;
    } cases[] = {
        {"no layers", 0, 1, 8, 8, 4, 0, 1, FOVEA_ERROR_SHAPE},
        {"no heads", 1, 0, 8, 8, 4, 0, 1, FOVEA_ERROR_SHAPE},
        {"no channels", 1, 1, 0, 8, 4, 0, 1, FOVEA_ERROR_SHAPE},
        {"negative channels", 1, 1, 8, -8, 4, 0, 1, FOVEA_ERROR_SHAPE},
        {"no limit", 1, 1, 8, 8, 0, 0, 1, FOVEA_ERROR_ARGUMENT},
        {"two limits", 1, 1, 8, 8, 4, 1 << 20, 1, FOVEA_ERROR_ARGUMENT},
        {"negative pages", 1, 1, 8, 8, -4, 0, 1, FOVEA_ERROR_ARGUMENT},
        {"negative pages beside bytes", 1, 1, 8, 8, -4, 1 << 20, 1, FOVEA_ERROR_ARGUMENT},
        {"negative bytes beside pages", 1, 1, 8, 8, 4, -4, 1, FOVEA_ERROR_ARGUMENT},
        {"less than a page", 1, 1, 8, 8, 0, 16383, 1, FOVEA_ERROR_SHAPE},
        {"type", 1, 1, 8, 8, 4, 0, FOVEA_DTYPE_I64, FOVEA_ERROR_DTYPE},
        {"large", 1, (int64_t)1 << 47, (int64_t)1 << 40, 8, 4, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"a page", 1, (int64_t)1 << 48, 8, 8, 1, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"many pages", 1, 1, 8, 8, (int64_t)1 << 40, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"too many pages", 1, 1, 8, 8, (int64_t)INT32_MAX + 1, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"most pages", 1, 1, 8, 8, INT64_MAX, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"pages of all memory", 1, 1 << 20, 1 << 10, 8, 1 << 24, 0, 1, FOVEA_ERROR_OVERFLOW},
        {"most bytes", 1, 1, 8, 8, 0, INT64_MAX, 1, FOVEA_ERROR_OVERFLOW},
        {"most bytes of large pages", 1, 1 << 20, 1 << 10, 8, 0, INT64_MAX, 1, FOVEA_ERROR_OVERFLOW},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_kv_cache_desc d;
        fovea_kv_cache *cache = (fovea_kv_cache *)&d;
        fovea_kv_cache_desc_init(&d);
        d.layers = cases[i].layers;
        d.kv_heads = cases[i].heads;
        d.head_dim = cases[i].dim;
        d.value_dim = cases[i].value;
        d.max_pages = cases[i].pages;
        d.max_bytes = cases[i].bytes;
        d.k_dtype = (fovea_dtype)cases[i].k_dtype;
        check_due(cases[i].what, fovea_kv_cache_create(ctx, &d, &cache), cases[i].due);
        test_check(!cache, "%s: a cache is left", cases[i].what);
        char limit[64];
        snprintf(limit, sizeof limit, cases[i].bytes ? "max_bytes is %lld" : "max_pages is %lld",
                 (long long)(cases[i].bytes + cases[i].pages));
        test_check(cases[i].due != FOVEA_ERROR_OVERFLOW || strstr(fovea_error_detail(), limit) ||
                       strstr(fovea_error_detail(), "a page of"),
                   "%s: %s", cases[i].what, fovea_error_detail());
    }
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    const int64_t windows[1] = {-2};
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = d.head_dim = d.value_dim = 1;
    d.max_bytes = 16384;
    check_due("no ctx", fovea_kv_cache_create(NULL, &d, &cache), FOVEA_ERROR_NULL);
    check_due("no desc", fovea_kv_cache_create(ctx, NULL, &cache), FOVEA_ERROR_NULL);
    check_due("no cache", fovea_kv_cache_create(ctx, &d, NULL), FOVEA_ERROR_NULL);
    d.windows = windows;
    check_due("window", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_ERROR_ARGUMENT);
    d.windows = NULL;
    fovea_rope_desc turns;
    fovea_rope *rope;
    fovea_rope_desc_init(&turns);
    turns.rotary_dim = 2; /* of keys of one channel */
    check_due("rope", fovea_rope_create(&turns, &rope), FOVEA_OK);
    d.rope = rope;
    check_due("a rope of more channels", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_ERROR_ARGUMENT);
    d.rope = NULL;
    fovea_rope_destroy(rope);
    d.struct_size += 8;
    check_due("newer", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_ERROR_VERSION);
    d.struct_size -= 8;
    check_due("bytes", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_OK);
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    check_due("info", fovea_kv_cache_stats(cache, &stats), FOVEA_OK);
    test_check(stats.max_pages == 8 && stats.page_bytes == 2048 && stats.token_bytes == 8, "%d pages of %d bytes",
               (int)stats.max_pages, (int)stats.page_bytes);
    check_due("no stats", fovea_kv_cache_stats(cache, NULL), FOVEA_ERROR_NULL);
    fovea_kv_cache_destroy(cache);
    fovea_kv_cache_destroy(NULL);
    fovea_kv_cache_clear(NULL);
}

/* A cache with one sequence of 10 tokens, and an append of 2 that is right. */
typedef struct appends {
    cache_case c;
    fovea_kv_cache *cache;
    shadow *s;
    int64_t numbers[2], lens[2], ends[3];
    float k[2 * CACHE_KV_HEADS * 2 * CACHE_DIM], v[2 * CACHE_KV_HEADS * 2 * CACHE_VALUES];
    fovea_kv_append_args a;
} appends;

static void refuse(void *spoiled, fovea_status due, const char *words) {
    const appends *x = spoiled;
    int64_t length;
    check_status(words, fovea_kv_cache_append(x->cache, &x->a), due, words);
    test_check(fovea_kv_cache_length(x->cache, 0, x->s->number, &length) == FOVEA_OK && length == 10,
               "%s: the sequence has %d tokens", words, (int)length);
}

static void test_append(appends *x) {
#define A(field, number) SPOIL(appends, a.field, number)
    const refusal rows[] = {
        {FOVEA_ERROR_ARGUMENT, "layer is 2", {A(layer, CACHE_LAYERS)}},
        {FOVEA_ERROR_ARGUMENT, "layer is -1", {A(layer, -1)}},
        {FOVEA_ERROR_SHAPE, "count is -1", {A(count, -1)}},
        {FOVEA_ERROR_NULL, "sequences is NULL", {A(sequences, 0)}},
        {FOVEA_ERROR_ARGUMENT, "sequence", {SPOIL(appends, numbers[0], x->numbers[0] + 1)}},
        {FOVEA_ERROR_SHAPE, "k: head axis has 1", {A(k.shape[1], 1)}},
        {FOVEA_ERROR_SHAPE, "v: token axis has 1", {A(v.shape[2], 1)}},
        {FOVEA_ERROR_NULL, "v has no data", {A(v.data, 0)}},
        {FOVEA_ERROR_DTYPE, "k is FOVEA_DTYPE_BOOL", {A(k.dtype, FOVEA_DTYPE_BOOL)}},
        {FOVEA_ERROR_STRIDE, "k: channel stride is 2", {A(k.stride[3], 2)}},
        {FOVEA_ERROR_SHAPE, "lens[0] is 3", {A(lens, x->lens), SPOIL(appends, lens[0], 3)}},
        {FOVEA_ERROR_SHAPE, "lens[0] is -1", {A(lens, x->lens), SPOIL(appends, lens[0], -1)}},
        {FOVEA_ERROR_ARGUMENT, "lens and cu_seqlens", {A(lens, x->lens), A(cu_seqlens, x->ends)}},
        {FOVEA_ERROR_SHAPE, "cu_seqlens[1] is 3", {A(cu_seqlens, x->ends), SPOIL(appends, ends[1], 3)}},
        {FOVEA_ERROR_SHAPE,
         "cu_seqlens[0] is -1",
         {A(cu_seqlens, x->ends), SPOIL(appends, ends[0], -1), SPOIL(appends, ends[1], 1)}},
        {FOVEA_ERROR_SHAPE,
         "cu_seqlens[1] is 1; it must be from 2",
         {A(cu_seqlens, x->ends), SPOIL(appends, ends[0], 2), SPOIL(appends, ends[1], 1)}},
        {FOVEA_ERROR_ARGUMENT, "a reserved field is set", {A(reserved, 1)}},
        {FOVEA_ERROR_ARGUMENT, "twice", {A(count, 2), A(k.shape[0], 2), A(v.shape[0], 2)}},
        {FOVEA_ERROR_VERSION, "fovea_kv_append_args has struct_size 16", {A(struct_size, 16)}},
        {FOVEA_OK, "nothing", {A(count, 0), A(k.shape[0], 0), A(v.shape[0], 0)}},
    };
#undef A
    fovea_kv_append_args_init(&x->a);
    x->a.count = 1;
    x->a.sequences = x->numbers;
    x->a.k = fovea_tensor_bhtd(x->k, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 2, CACHE_DIM);
    x->a.v = fovea_tensor_bhtd(x->v, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 2, CACHE_VALUES);
    x->lens[0] = 1;
    x->numbers[1] = x->numbers[0];
    refuse_each(x, rows, sizeof rows / sizeof rows[0], refuse);
    check_due("no append", fovea_kv_cache_append(x->cache, NULL), FOVEA_ERROR_NULL);
    check_due("no cache", fovea_kv_cache_append(NULL, &x->a), FOVEA_ERROR_NULL);
}

static void test_sequences(appends *x) {
    const int64_t n = x->s->number, many[2] = {n, n}, tokens[2] = {1, 1}, negative[1] = {-1}, huge[1] = {INT64_MAX / 2};
    int64_t out;
    check_due("length of layer -1", fovea_kv_cache_length(x->cache, -1, n, &out), FOVEA_ERROR_ARGUMENT);
    check_due("length of a layer", fovea_kv_cache_length(x->cache, CACHE_LAYERS, n, &out), FOVEA_ERROR_ARGUMENT);
    check_due("length of none", fovea_kv_cache_length(x->cache, 0, n + 1, &out), FOVEA_ERROR_ARGUMENT);
    check_due("length of -1", fovea_kv_cache_length(x->cache, 0, -1, &out), FOVEA_ERROR_ARGUMENT);
    check_due("fork of none", fovea_kv_cache_fork(x->cache, n + 1, &out), FOVEA_ERROR_ARGUMENT);
    test_check(out == -1, "a fork of none is %d", (int)out);
    check_due("fork to nowhere", fovea_kv_cache_fork(x->cache, n, NULL), FOVEA_ERROR_NULL);
    check_due("add to nowhere", fovea_kv_cache_add(x->cache, NULL), FOVEA_ERROR_NULL);
    check_due("remove", fovea_kv_cache_remove(x->cache, n + 1), FOVEA_ERROR_ARGUMENT);
    check_due("cut to -1", fovea_kv_cache_truncate(x->cache, n, -1), FOVEA_ERROR_SHAPE);
    check_due("cut none", fovea_kv_cache_truncate(x->cache, n + 1, 1), FOVEA_ERROR_ARGUMENT);
    check_due("evict past the end", fovea_kv_cache_evict(x->cache, n, 3, 11), FOVEA_ERROR_SHAPE);
    check_due("evict backwards", fovea_kv_cache_evict(x->cache, n, 3, 2), FOVEA_ERROR_SHAPE);
    check_due("evict from -1", fovea_kv_cache_evict(x->cache, n, -1, 2), FOVEA_ERROR_SHAPE);
    check_due("evict nothing", fovea_kv_cache_evict(x->cache, n, 2, 2), FOVEA_OK);
    check_due("reserve twice", fovea_kv_cache_reserve(x->cache, 2, many, tokens), FOVEA_ERROR_ARGUMENT);
    check_due("reserve -1", fovea_kv_cache_reserve(x->cache, 1, many, negative), FOVEA_ERROR_SHAPE);
    check_due("reserve too much", fovea_kv_cache_reserve(x->cache, 1, many, huge), FOVEA_ERROR_OVERFLOW);
    check_due("reserve without tokens", fovea_kv_cache_reserve(x->cache, 1, many, NULL), FOVEA_ERROR_NULL);
    const int64_t more[1] = {64 * 256};
    check_due("reserve more than all", fovea_kv_cache_reserve(x->cache, 1, many, more), FOVEA_ERROR_FULL);
    cache_check(&x->c, x->cache, &x->s, 1, 3, "after errors");
    check_due("a longer layer", cache_append_one(x->cache, x->s, 0), FOVEA_OK);
    check_due("evict what another layer has not", fovea_kv_cache_evict(x->cache, n, 3, 11), FOVEA_ERROR_SHAPE);
    check_due("cut", fovea_kv_cache_truncate(x->cache, n, 10), FOVEA_OK);
}

/* A layer that fails after it appended its token takes it back; one that finds the cache full has appended nothing. */
static void test_layer(const cache_case *c) {
    enum { FEATURES = 8, MOST = CACHE_Q_HEADS * CACHE_VALUES };
    static float w[MOST * FEATURES], x[FEATURES], out[MOST], kept[MOST];
    uint8_t mask[300] = {1};
    const int64_t others = 64 / CACHE_LAYERS * FOVEA_KV_PAGE_KEYS - FOVEA_KV_PAGE_KEYS;
    fovea_kv_cache *cache = cache_make(c);
    fovea_attention_desc a = cache_desc(c, 0, 1, 1, 300);
    fovea_mha_desc d;
    fovea_mha_weights weights;
    fovea_mha *mha;
    fovea_attention_args args;
    int64_t s, other, length;
    a.page_keys = FOVEA_KV_PAGE_KEYS;
    a.mask = FOVEA_MASK_KEY_PADDING;
    fovea_mha_desc_init(&d);
    d.q_features = FEATURES;
    d.attention = &a;
    fovea_mha_weights_init(&weights);
    weights.q = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, CACHE_Q_HEADS * CACHE_DIM, FEATURES);
    weights.k = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, CACHE_KV_HEADS * CACHE_DIM, FEATURES);
    weights.v = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, CACHE_KV_HEADS * CACHE_VALUES, FEATURES);
    check_due("layer", fovea_mha_create(c->ctx, &d, &weights, &mha), FOVEA_OK);
    check_due("add", fovea_kv_cache_add(cache, &s), FOVEA_OK);
    check_due("add", fovea_kv_cache_add(cache, &other), FOVEA_OK);
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 1, FEATURES);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, CACHE_VALUES);
    args.mask = (fovea_tensor){mask, FOVEA_DTYPE_BOOL, {1, 1, 1, 300}, {0, 0, 0, 1}, NULL};
    args.cache = cache;
    args.cache_sequences = &s;
    for (args.cache_layer = 0; args.cache_layer < CACHE_LAYERS; args.cache_layer++)
        check_due("a token of a layer", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_OK);
    check_due("evict", fovea_kv_cache_evict(cache, s, 0, 1), FOVEA_OK);
    args.cache_layer = 1;
    for (int i = 0; i < 2; i++) {
        poison_fill(out, MOST);
        memcpy(kept, out, sizeof out);
        if (i == 1) {
            args.cache_sequences = &other;
            check_due("reserve", fovea_kv_cache_reserve(cache, 1, &s, &others), FOVEA_OK);
        }
        check_due(i ? "full" : "evicted keys", fovea_mha_execute(mha, &args, NULL, 0),
                  i ? FOVEA_ERROR_FULL : FOVEA_ERROR_UNSUPPORTED);
        check_due("length", fovea_kv_cache_length(cache, 1, args.cache_sequences[0], &length), FOVEA_OK);
        test_check(length == 1 - i, "a layer that failed: %d tokens", (int)length);
        test_check(memcmp(out, kept, sizeof out) == 0, "a layer that failed: outputs");
    }
    fovea_mha_destroy(mha);
    fovea_kv_cache_destroy(cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_errors", NULL);
    const case_contexts contexts = contexts_make();
    static appends x;
    const int64_t tokens = 10;
    test_create(contexts.one);
    x.c = cache_case_make(contexts.one, contexts.scalar);
    x.cache = cache_make(&x.c);
    x.s = must_alloc(1, sizeof *x.s);
    x.s->length = 0;
    check_due("add", fovea_kv_cache_add(x.cache, &x.s->number), FOVEA_OK);
    check_due("append", cache_append(x.cache, &x.s, 1, &tokens, 1), FOVEA_OK);
    x.numbers[0] = x.s->number;
    test_append(&x);
    test_sequences(&x);
    test_layer(&x.c);
    fovea_kv_cache_destroy(x.cache);
    free(x.s);
    contexts_free(&contexts);
    return test_end();
}
