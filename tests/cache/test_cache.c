/* Caches of keys and values (fovea/cache.h), by bits against contiguous tensors on the scalar tier: tokens one by one,
 * in chunks and at once, for all element types, with rotary embedding and windows; and random lives of many sequences
 * (append, fork, truncate, evict, remove) in a cache that is often full. */
#include "cache/pool.h"
#include "cache_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(fovea_kv_cache *cache, shadow *s, int64_t tokens, int32_t first) {
    test_check(cache_append(cache, &s, 1, &tokens, first) == FOVEA_OK, "append: %s", fovea_error_detail());
}

/* The same 300 tokens in three ways; each way's every row, and all rows of all ways at the end in one call. */
static void check_chunks(const cache_case *c, const char *what) {
    static const int64_t chunks[] = {1, 7, 300};
    const bool scaled = fv_dtype_paged(c->k_dtype) || fv_dtype_paged(c->v_dtype);
    const int64_t every = scaled ? 45 : 5, last = scaled ? 290 : 250; /* what is wanted takes a cache of its own */
    fovea_kv_cache *cache = cache_make(c);
    shadow *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = cache_add(cache);
        for (int64_t at = 0; at < 300; at += chunks[i]) {
            const int64_t tokens = chunks[i] < 300 - at ? chunks[i] : 300 - at;
            append(cache, s[i], tokens, 1000 + (int32_t)at);
            if (i == 2 || at % every == 0 || at > last)
                cache_check(c, cache, &s[i], 1, tokens, what);
        }
    }
    cache_check(c, cache, s, 3, 44, what);
    for (int i = 0; i < 3; i++)
        free(s[i]);
    const fovea_kv_stats stats = cache_stats(cache);
    test_check(stats.appended_tokens == 3 * 300 * CACHE_LAYERS && stats.sequences == 3 &&
                   stats.used_pages == 3 * 2 * CACHE_LAYERS,
               "%s: statistics: %d tokens, %d sequences, %d pages", what, (int)stats.appended_tokens,
               (int)stats.sequences, (int)stats.used_pages);
    fovea_kv_cache_clear(cache);
    test_check(cache_stats(cache).used_pages == 0 && cache_stats(cache).sequences == 0, "%s: clear leaves pages", what);
    fovea_kv_cache_destroy(cache);
}

static void test_chunks(cache_case c, const fovea_context *threads) {
    check_chunks(&c, "float32");
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_BF16;
    check_chunks(&c, "bfloat16");
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_F16;
    check_chunks(&c, "float16");
    c.k_dtype = FOVEA_DTYPE_BF16;
    c.v_dtype = FOVEA_DTYPE_F32;
    c.ctx = threads;
    check_chunks(&c, "bfloat16 and float32, threads");
}

/* Forks of forks: some share two pages, some one, some none; in any order, with queries of several tokens. Biases
 * forbid to read pages once for several. */
static void test_shared(cache_case c, const fovea_context *threads) {
    const int groups = !(c.features & ~(unsigned)(CACHE_SOFTCAP | CACHE_SINKS));
    enum { COUNT = 7 };
    static const int64_t lengths[COUNT] = {600, 600, 600, 300, 512, 300, 20};
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s[COUNT], *origin = cache_add(cache);
    append(cache, origin, 900, 1);
    for (int i = 0; i < COUNT; i++) {
        s[i] = i == 3 ? cache_add(cache) : cache_fork(cache, origin);
        if (i == 3) /* a stranger among them */
            append(cache, s[i], 700, 40000);
        else {
            s[i]->length = lengths[i];
            test_check(fovea_kv_cache_truncate(cache, s[i]->number, lengths[i]) == FOVEA_OK, "%s",
                       fovea_error_detail());
        }
        append(cache, s[i], 3 + 30 * i, 50000 + 1000 * i);
    }
    for (int64_t rows = 1; rows <= 3; rows++) {
        c.ctx = rows == 2 ? threads : c.ctx;
        test_check(cache_check(&c, cache, s, COUNT, rows, "shared prefixes") == groups, "not one group of %d", COUNT);
        test_check(cache_check(&c, cache, (shadow *[]){s[3], s[6]}, 2, rows, "strangers") == 0, "a group of strangers");
        test_check(cache_check(&c, cache, (shadow *[]){s[3], s[0], s[3], s[5], s[1]}, 5, rows, "two groups") ==
                       2 * groups,
                   "not two groups");
    }
    fovea_kv_cache_destroy(cache);
    for (int i = 0; i < COUNT; i++)
        free(s[i]);
    free(origin);
}

/* Named arithmetics: whatever the pages, and with prefixes that are read once. */
static void test_arithmetics(cache_case c, const fovea_context *threads) {
    c.q_dtype = c.k_dtype = c.v_dtype = FOVEA_DTYPE_BF16;
    check_chunks(&c, "queries of bfloat16");
    test_shared(c, threads);
    c.arithmetic = FOVEA_ARITHMETIC_BF16;
    check_chunks(&c, "arithmetic bf16");
    test_shared(c, threads);
    c.arithmetic = FOVEA_ARITHMETIC_BF16_TILE;
    check_chunks(&c, "arithmetic bf16_tile");
    test_shared(c, threads);
}

/* Steps on scores. */
static void test_features(cache_case c, const fovea_context *threads) {
    static const unsigned features[] = {CACHE_SOFTCAP,
                                        CACHE_SINKS,
                                        CACHE_SOFTCAP | CACHE_SINKS,
                                        CACHE_BIAS,
                                        CACHE_ALIBI | CACHE_SINKS,
                                        CACHE_TOEPLITZ | CACHE_BIAS,
                                        CACHE_T5 | CACHE_SOFTCAP};
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8};
    for (int i = 0; i < 7; i++) {
        c.features = features[i];
        c.q_dtype = types[i % 2];
        c.k_dtype = c.v_dtype = types[i % 3];
        test_shared(c, threads);
        check_chunks(&c, "features");
    }
}

static void test_rope(cache_case c) {
    fovea_rope_desc d;
    fovea_rope *rope;
    fovea_rope_desc_init(&d);
    d.rotary_dim = 16;
    for (int pairing = 0; pairing < 2; pairing++) {
        d.pairing = (fovea_rope_pairing)pairing;
        test_check(fovea_rope_create(&d, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
        c.rope = rope;
        c.k_dtype = pairing ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_BF16;
        check_chunks(&c, "with a rope");
        fovea_rope_destroy(rope);
    }
}

/* A cache that holds its windows and no more. */
static void test_tight(cache_case c) {
    c.windows[0] = 300;
    c.windows[1] = 0;
    c.max_pages = 4;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache);
    for (int64_t at = 0; at + 256 < CACHE_LONGEST; at += 256) {
        append(cache, s, 256, (int32_t)at);
        cache_check(&c, cache, &s, 1, 30, "tight windows");
    }
    fovea_kv_cache_destroy(cache);
    free(s);
}

/* A window's pages go; queries see what they would of all keys. */
static void test_windows(cache_case c) {
    c.windows[0] = 300;
    c.windows[1] = 0;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache), *fork = NULL;
    for (int64_t at = 0, tokens; at + 90 < CACHE_LONGEST; at += tokens) {
        tokens = 1 + at % 89;
        append(cache, s, tokens, (int32_t)at);
        cache_check(&c, cache, &s, 1, tokens, "windows");
        if (at > 600 && !fork)
            fork = cache_fork(cache, s);
    }
    append(cache, fork, 40, 5000);
    cache_check(&c, cache, (shadow *[]){s, fork}, 2, 1, "windows, forked");
    const fovea_kv_stats stats = cache_stats(cache);
    test_check(stats.window_pages > 3 && stats.used_pages <= 10, "windows: %d pages freed, %d in use",
               (int)stats.window_pages, (int)stats.used_pages);
    test_check(fovea_kv_cache_truncate(cache, s->number, 400) == FOVEA_ERROR_ARGUMENT, "cut behind a window");
    int64_t length;
    test_check(fovea_kv_cache_length(cache, 1, s->number, &length) == FOVEA_OK && length == s->length, "cut, refused");
    const int64_t fewer = s->length - 20;
    test_check(fovea_kv_cache_truncate(cache, s->number, fewer) == FOVEA_OK, "cut: %s", fovea_error_detail());
    s->length = fewer;
    append(cache, s, 5, 7000);
    cache_check(&c, cache, &s, 1, 5, "windows, cut");
    test_check(fovea_kv_cache_truncate(cache, s->number, 0) == FOVEA_OK, "cut to nothing: %s", fovea_error_detail());
    s->length = 0;
    append(cache, s, 5, 8000);
    cache_check(&c, cache, &s, 1, 5, "windows, begun again");
    fovea_kv_cache_destroy(cache);
    free(s);
    free(fork);
}

/* Keys, values or both as integers: of few and many queries, with and without what else a cache does. */
static void test_scaled_types(cache_case c, const fovea_context *threads) {
    static const fovea_dtype types[][3] = {
        {FOVEA_DTYPE_F32, FOVEA_DTYPE_I8, FOVEA_DTYPE_I8},   {FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8},
        {FOVEA_DTYPE_F32, FOVEA_DTYPE_I8, FOVEA_DTYPE_F32},  {FOVEA_DTYPE_F16, FOVEA_DTYPE_I8, FOVEA_DTYPE_F16},
        {FOVEA_DTYPE_F32, FOVEA_DTYPE_I4, FOVEA_DTYPE_I4},   {FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8, FOVEA_DTYPE_I4},
        {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I4}, {FOVEA_DTYPE_F16, FOVEA_DTYPE_I4, FOVEA_DTYPE_F16}};
    fovea_rope_desc d;
    fovea_rope *rope;
    fovea_rope_desc_init(&d);
    d.rotary_dim = 16;
    test_check(fovea_rope_create(&d, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        c.q_dtype = types[i][0];
        c.k_dtype = types[i][1];
        c.v_dtype = types[i][2];
        c.rope = i % 2 == 0 ? rope : NULL;
        check_chunks(&c, "integers");
        c.ctx = threads;
    }
    fovea_rope_destroy(rope);
    c.rope = NULL;
    for (int i = 0; i < 2; i++) { /* named arithmetics are those of the other sides */
        c.q_dtype = FOVEA_DTYPE_BF16;
        c.k_dtype = i == 0 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_I8;
        c.v_dtype = i == 0 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_BF16;
        c.arithmetic = i == 0 ? FOVEA_ARITHMETIC_BF16 : FOVEA_ARITHMETIC_BF16_TILE;
        check_chunks(&c, "int8 beside a named arithmetic");
    }
    c.arithmetic = FOVEA_ARITHMETIC_EXACT;
    c.q_dtype = FOVEA_DTYPE_F32;
    for (int i = 0; i < 2; i++) {
        c.k_dtype = c.v_dtype = i == 0 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_I4;
        test_shared(c, threads);
        test_windows(c);
    }
}

/* ------------------------------------------------------------------------------------------------- random lives -- */

enum { MOST = 6 };

typedef struct life {
    const cache_case *c;
    fovea_kv_cache *cache;
    shadow *s[MOST];
    int64_t count, full, steps;
    rng r;
    int32_t token;
} life;

static void grow(life *x) {
    shadow *some[MOST];
    int64_t tokens[MOST], count = 0, numbers[MOST], before = cache_stats(x->cache).used_pages;
    for (int64_t i = 0; i < x->count; i++)
        if (rng_below(&x->r, 2)) {
            some[count] = x->s[i];
            numbers[count] = x->s[i]->number;
            tokens[count] = rng_below(&x->r, rng_below(&x->r, 3) ? 12 : 500);
            if (x->s[i]->length + tokens[count] > CACHE_LONGEST)
                tokens[count] = 0;
            count++;
        }
    const fovea_status status = cache_append(x->cache, some, count, tokens, x->token);
    x->token += 10000;
    test_check(status == FOVEA_OK || status == FOVEA_ERROR_FULL, "append: %s", fovea_error_detail());
    if (status != FOVEA_ERROR_FULL)
        return;
    x->full++;
    test_check(cache_stats(x->cache).used_pages == before, "a full cache: pages were taken");
    for (int64_t i = 0, length; i < count; i++)
        test_check(fovea_kv_cache_length(x->cache, 0, numbers[i], &length) == FOVEA_OK && length == some[i]->length,
                   "a full cache: a sequence is longer");
}

static void add_one(life *x) {
    if (x->count == MOST)
        return;
    if (x->count > 0 && rng_below(&x->r, 3))
        x->s[x->count] = cache_fork(x->cache, x->s[rng_below(&x->r, x->count)]);
    else
        x->s[x->count] = cache_add(x->cache);
    x->count++;
}

static void remove_one(life *x) {
    const int64_t i = rng_below(&x->r, x->count);
    const int64_t number = x->s[i]->number;
    test_check(fovea_kv_cache_remove(x->cache, number) == FOVEA_OK, "remove: %s", fovea_error_detail());
    test_check(fovea_kv_cache_remove(x->cache, number) == FOVEA_ERROR_ARGUMENT, "removed twice");
    free(x->s[i]);
    x->s[i] = x->s[--x->count];
}

static void cut_one(life *x) {
    shadow *s = x->s[rng_below(&x->r, x->count)];
    const int64_t length = rng_below(&x->r, s->length + 10);
    test_check(fovea_kv_cache_truncate(x->cache, s->number, length) == FOVEA_OK, "cut: %s", fovea_error_detail());
    s->length = length < s->length ? length : s->length;
}

static void evict_one(life *x) {
    shadow *s = x->s[rng_below(&x->r, x->count)];
    const int64_t begin = rng_below(&x->r, s->length + 1), end = begin + rng_below(&x->r, s->length - begin + 1);
    test_check(fovea_kv_cache_evict(x->cache, s->number, begin, end) == FOVEA_OK, "evict: %s", fovea_error_detail());
    memset(s->attended + begin, 0, (size_t)(end - begin));
}

static void check_all(life *x) {
    shadow *some[MOST + 2];
    int64_t count = 0, shortest = 9;
    for (int64_t i = 0; i < x->count; i++)
        if (x->s[i]->length > 0) {
            some[count++] = x->s[i];
            shortest = x->s[i]->length < shortest ? x->s[i]->length : shortest;
        }
    if (count > 1)
        some[count++] = some[0]; /* a sequence may come twice */
    if (count > 0)
        cache_check(x->c, x->cache, some, count, 1 + rng_below(&x->r, shortest), "a random life");
}

static void test_lives(cache_case c) {
    static const unsigned features[] = {
        0, CACHE_SOFTCAP | CACHE_SINKS, CACHE_ALIBI, CACHE_T5 | CACHE_SINKS, CACHE_BIAS | CACHE_TOEPLITZ, CACHE_BIAS};
    int64_t copied = 0, evicted = 0, full = 0;
    fovea_rope_desc d;
    fovea_rope *rope;
    fovea_rope_desc_init(&d);
    d.rotary_dim = 16;
    test_check(fovea_rope_create(&d, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
    c.max_pages = 24;
    const int64_t lives = test_scaled(6);
    for (int64_t i = 0; i < lives; i++) {
        char name[32];
        snprintf(name, sizeof name, "life %d", (int)i);
        c.features = features[i % 6];
        c.k_dtype = i % 3 == 1 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_F32;
        c.v_dtype = i % 3 == 1 ? FOVEA_DTYPE_I8 : i % 3 == 2 ? FOVEA_DTYPE_I4 : FOVEA_DTYPE_F32;
        c.rope = i % 2 == 0 ? rope : NULL; /* positions stay, whatever was evicted */
        life x = {.c = &c, .cache = cache_make(&c), .r = rng_stream(test_seed(), name)};
        for (x.steps = 0; x.steps < 60; x.steps++) {
            const int64_t what = rng_below(&x.r, 16);
            if (x.count == 0 || what < 3)
                add_one(&x);
            else if (what == 3)
                remove_one(&x);
            else if (what == 4)
                cut_one(&x);
            else if (what == 5 || what == 6)
                evict_one(&x);
            else
                grow(&x);
            if (x.steps % 3 == 0)
                check_all(&x);
        }
        copied += cache_stats(x.cache).copied_pages;
        evicted += cache_stats(x.cache).evicted_pages;
        full += x.full;
        while (x.count > 0)
            remove_one(&x);
        test_check(cache_stats(x.cache).used_pages == 0 && cache_stats(x.cache).shared_pages == 0, "pages are lost");
        fovea_kv_cache_destroy(x.cache);
    }
    fovea_rope_destroy(rope);
    test_check(lives < 6 || (copied > 0 && evicted > 0 && full > 0),
               "lives that prove little: %d pages copied, %d evicted, full %d times", (int)copied, (int)evicted,
               (int)full);
}

/* Interleaved keys of bfloat16: where channels are odd, the last word ends with zero, and nothing around a row is
 * touched. */
static void test_odd_key(const fovea_context *ctx) {
    enum { DIM = 5, BESIDE = 0x7fc0 };
    fovea_kv_cache_desc desc;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&desc);
    desc.layers = desc.kv_heads = desc.max_pages = 1;
    desc.head_dim = desc.value_dim = DIM;
    desc.k_dtype = FOVEA_DTYPE_BF16;
    if (!test_check(fovea_kv_cache_create(ctx, &desc, &cache) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    const int64_t bytes = cache->pages.part[FV_KEYS].word;
    if (bytes > 0) {
        const uint16_t row[DIM + 1] = {1, 2, 3, 4, 5, BESIDE};
        uint16_t back[DIM + 1] = {0, 0, 0, 0, 0, BESIDE};
        fv_interleaved_write(&cache->pages, FV_KEYS, 0, 0, 3, 1, (const char *)row);
        fv_interleaved_read(&cache->pages, FV_KEYS, 0, 0, 3, 1, (char *)back);
        test_check(memcmp(row, back, sizeof row) == 0, "a key of %d channels is another", DIM);
        uint32_t last = 0;
        memcpy(&last, fv_cache_at(cache, FV_KEYS, 0, 0, 3) + DIM / 2 * FV_KEY_GROUP * 4, sizeof last);
        test_check(bytes < 4 || last == 5 << 16, "the last word of a key is %08x", last);
    }
    fovea_kv_cache_destroy(cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache", NULL);
    const case_contexts x = contexts_make();
    const cache_case c = cache_case_make(x.one, x.scalar);
    test_chunks(c, x.three);
    test_rope(c);
    test_windows(c);
    test_tight(c);
    test_shared(c, x.three);
    test_features(c, x.three);
    test_arithmetics(c, x.three);
    test_scaled_types(c, x.three);
    test_lives(c);
    test_odd_key(x.one);
    contexts_free(&x);
    return test_end();
}
