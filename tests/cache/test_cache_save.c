/* Saved sequences (fovea_kv_cache_save, _load): loaded ones give the same bits, after forks, evictions and windows,
 * also in a cache of another tier's context; what version 0.3 saved is read, and saved with the same bytes; and hostile
 * bytes: every cut, flips with and without the right checksum, and heads of other caches are refused or harmless. */
#include "arrays.h"
#include "cache_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *save(fovea_kv_cache *cache, int64_t sequence, size_t *size) {
    test_check(fovea_kv_cache_save(cache, sequence, NULL, 0, size) == FOVEA_OK, "size: %s", fovea_error_detail());
    void *data = must_alloc((int64_t)*size, 1);
    size_t again;
    test_check(fovea_kv_cache_save(cache, sequence, data, *size - 1, &again) == FOVEA_ERROR_WORKSPACE, "too small");
    test_check(fovea_kv_cache_save(cache, sequence, data, *size, &again) == FOVEA_OK && again == *size, "save: %s",
               fovea_error_detail());
    return data;
}

static int64_t used(fovea_kv_cache *cache) { return cache_stats(cache).used_pages; }

/* A sequence with a past. */
static shadow *make(fovea_kv_cache *cache, bool evict) {
    shadow *s = must_alloc(1, sizeof *s);
    int64_t tokens = 700, more = 5;
    s->length = 0;
    fovea_kv_cache_add(cache, &s->number);
    cache_append(cache, &s, 1, &tokens, 1);
    if (evict) {
        fovea_kv_cache_evict(cache, s->number, 3, 9);
        fovea_kv_cache_evict(cache, s->number, 200, 530);
        memset(s->attended + 3, 0, 6);
        memset(s->attended + 200, 0, 330);
    }
    cache_append(cache, &s, 1, &more, 5000);
    return s;
}

static void check_loads(const cache_case *c, const fovea_context *other, bool evict) {
    cache_case there = *c;
    there.ctx = other;
    there.max_pages = 9;
    fovea_kv_cache *from = cache_make(c), *to = cache_make(&there);
    shadow *s = make(from, evict), loaded = *s;
    size_t size;
    void *data = save(from, s->number, &size);
    const int64_t pages = used(from);
    test_check(fovea_kv_cache_load(to, data, size, &loaded.number) == FOVEA_OK, "load: %s", fovea_error_detail());
    test_check(used(to) == pages, "%d pages of %d after loading", (int)used(to), (int)pages);
    shadow *one = &loaded;
    int64_t tokens = 7;
    cache_check(&there, to, &one, 1, 5, "loaded");
    cache_append(to, &one, 1, &tokens, 9000);
    cache_check(&there, to, &one, 1, 7, "loaded, and longer");
    int64_t number, before = 0;
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < 9 && status == FOVEA_OK; i++) { /* until it is full */
        before = used(to);
        status = fovea_kv_cache_load(to, data, size, &number);
    }
    test_check(status == FOVEA_ERROR_FULL && number == -1 && used(to) == before, "load into a full cache: %s",
               fovea_error_detail());
    const int64_t sequences = cache_stats(to).sequences;
    test_check(fovea_kv_cache_load(to, data, size, &number) == FOVEA_ERROR_FULL &&
                   cache_stats(to).sequences == sequences,
               "a sequence that was not loaded is left");
    free(data);
    free(s);
    fovea_kv_cache_destroy(from);
    fovea_kv_cache_destroy(to);
}

/* Loads bytes from memory of exactly their size; what comes of it must be a status, and if it is a sequence, one that
 * lives. */
static fovea_status try(fovea_kv_cache *cache, const char *data, size_t size) {
    char *exact = must_alloc((int64_t)size + 1, 1);
    char *at = exact + 1; /* at an odd address */
    int64_t sequence, length;
    const int64_t before = used(cache);
    memcpy(at, data, size);
    const fovea_status status = fovea_kv_cache_load(cache, at, size, &sequence);
    if (status == FOVEA_OK) {
        test_check(fovea_kv_cache_length(cache, 0, sequence, &length) == FOVEA_OK, "a loaded sequence is none");
        test_check(fovea_kv_cache_remove(cache, sequence) == FOVEA_OK, "a loaded sequence cannot be removed");
    } else
        test_check(sequence == -1, "an error gives a sequence");
    test_check(used(cache) == before, "pages are lost");
    free(exact);
    return status;
}

static void test_hostile(const cache_case *c) {
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = make(cache, true);
    size_t size;
    char *data = save(cache, s->number, &size), *bad = must_alloc((int64_t)size + 8, 1);
    rng r = rng_stream(test_seed(), "hostile");
    for (size_t n = 0; n < size; n += n < 400 ? 1 : 997)
        test_check(try(cache, data, n) == FOVEA_ERROR_FILE, "cut to %d bytes: taken", (int)n);
    memcpy(bad, data, size);
    test_check(try(cache, bad, size + 8) == FOVEA_ERROR_FILE, "bytes behind it: taken");
    for (int64_t i = 0; i < test_scaled(600); i++) { /* in the head mostly: one bit, or a number */
        memcpy(bad, data, size);
        const int64_t at = rng_below(&r, i % 4 ? 220 : (int64_t)size);
        bad[at] = (char)(bad[at] ^ (1 << rng_below(&r, 8)));
        const fovea_status flipped = try(cache, bad, size);
        test_check(flipped != FOVEA_OK, "a flip of byte %d: taken", (int)at);
        static const int64_t numbers[] = {-1, 0, 1, 255, 256, 1 << 20, INT64_MAX, INT64_MIN, INT64_MAX / 8, 4096};
        memcpy(bad, data, size);
        memcpy(bad + rng_below(&r, 28) * 8, &numbers[rng_below(&r, 10)], 8);
        if (i % 3 == 0)
            memcpy(bad + rng_below(&r, 28) * 8, &numbers[rng_below(&r, 10)], 8);
        cache_seal(bad, size);
        (void)try(cache, bad, size);
        const size_t shorter = (size_t)rng_between(&r, 8, (int64_t)size - 1);
        memcpy(bad, data, size);
        cache_seal(bad, shorter);
        test_check(try(cache, bad, shorter) != FOVEA_OK, "%d bytes, sealed: taken", (int)shorter);
    }
    memcpy(bad, data, size);
    static const struct {
        int64_t version;
        const char *words;
    } others[] = {{4, "version 4 of the format"},
                  {INT64_C(1) << 32 | 1, "version 2 of the bits"},
                  {INT64_MAX, "version 2147483648 of the bits"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        memcpy(bad + 8, &others[i].version, 8);
        cache_seal(bad, size);
        check_status(others[i].words, try(cache, bad, size), FOVEA_ERROR_VERSION, others[i].words);
    }
    test_check(fovea_kv_cache_load(cache, NULL, 8, &s->number) == FOVEA_ERROR_NULL, "no data");
    test_check(fovea_kv_cache_load(cache, data, size, NULL) == FOVEA_ERROR_NULL, "no sequence");
    test_check(fovea_kv_cache_save(cache, 12345, NULL, 0, &size) == FOVEA_ERROR_ARGUMENT, "saved: no sequence");
    free(data);
    free(bad);
    free(s);
    fovea_kv_cache_destroy(cache);
}

/* Sealed bytes of int8 rows that quantizing cannot give: -128, and scales below 0 or infinite. A scale may be NaN. */
static void test_impossible(const cache_case *c) {
    static const float scales[] = {-1.0f, INFINITY, -0x1p-140f, NAN, 0.0f};
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = make(cache, false);
    size_t size;
    char *data = save(cache, s->number, &size), *bad = must_alloc((int64_t)size, 1);
    int64_t last[3]; /* window, length, pages that are gone behind it */
    memcpy(last, data + (10 + 3 * (CACHE_LAYERS - 1)) * 8, sizeof last);
    for (int i = 0; i < 6; i++) {
        memcpy(bad, data, size);
        if (i < 5) /* of the last value */
            memcpy(bad + size - sizeof(uint64_t) - sizeof(float), &scales[i], sizeof(float));
        else /* the last of the last head, before the scales of the last layer */
            bad[size - sizeof(uint64_t) - 2 * (size_t)(last[1] - 256 * last[2]) * sizeof(float) - 1] = -128;
        cache_seal(bad, size);
        test_check(try(cache, bad, size) == (i == 3 || i == 4 ? FOVEA_OK : FOVEA_ERROR_FILE), "impossible %d: %s", i,
                   fovea_error_detail());
    }
    free(data);
    free(bad);
    free(s);
    fovea_kv_cache_destroy(cache);
}

/* Likewise of 4-bit keys, whose scales are float16: -8 in either half of a byte, and scales of no such kind. */
static void test_impossible_i4(const cache_case *c) {
    static const uint16_t scales[] = {0x7c00, 0x8000, 0xfc00, 0x8001, 0x7e00, 0x0001};
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = make(cache, false);
    size_t size;
    char *data = save(cache, s->number, &size), *bad = must_alloc((int64_t)size, 1);
    int64_t first[3]; /* of layer 0: window, length, pages that are gone behind it */
    memcpy(first, data + 10 * 8, sizeof first);
    const size_t rows = (10 + 3 * CACHE_LAYERS) * 8, tokens = (size_t)(first[1] - 256 * first[2]),
                 at = rows + tokens * (16 + CACHE_VALUES); /* keys have words of 16 channels */
    for (int i = 0; i < 8; i++) {
        memcpy(bad, data, size);
        if (i < 6)
            memcpy(bad + at + 2 * (tokens - 1), &scales[i], sizeof scales[i]);
        else
            bad[rows + 16 * tokens - 1] = (char)(i == 6 ? 0x80 : 0x08);
        cache_seal(bad, size);
        test_check(try(cache, bad, size) == (i == 4 || i == 5 ? FOVEA_OK : FOVEA_ERROR_FILE), "impossible %d: %s", i,
                   fovea_error_detail());
    }
    free(data);
    free(bad);
    free(s);
    fovea_kv_cache_destroy(cache);
}

/* Sealed bytes that could be read, of sequences that cannot be: more is gone behind a window than it lets go, and
 * ranges that are no ascending ones with gaps between. */
static void test_impossible_parts(cache_case c) {
    enum { WORD = 8, RANGES = 8 * WORD, HEAD = 10 * WORD, LAYER = 3 * WORD, FIRST = HEAD + CACHE_LAYERS * LAYER };
    c.windows[1] = 40;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache);
    const int64_t tokens = 34;
    size_t size;
    cache_append(cache, &s, 1, &tokens, 1);
    const int64_t behind = 1, length = 256 + tokens; /* of layer 1: its tokens behind a page, most of which is seen */
    char *data = cache_save(cache, s, &size);
    memcpy(data + HEAD + LAYER + WORD, &length, WORD);
    memcpy(data + HEAD + LAYER + 2 * WORD, &behind, WORD);
    cache_seal(data, size);
    test_check(try(cache, data, size) == FOVEA_ERROR_FILE, "gone behind a window: %s", fovea_error_detail());
    memcpy(data + HEAD + LAYER + 2 * WORD, &(int64_t){-1}, WORD);
    cache_seal(data, size);
    test_check(try(cache, data, size) == FOVEA_ERROR_FILE && strstr(fovea_error_detail(), "behind a window"),
               "less than nothing behind a window: %s", fovea_error_detail());
    free(data);
    test_check(fovea_kv_cache_evict(cache, s->number, 3, 9) == FOVEA_OK, "evict: %s", fovea_error_detail());
    const int64_t ranges = 2, seconds[][2] = {{3, 9}, {4, 8}, {9, 9}, {12, 12}, {8, 9}, {9, 12}, {30, 35}};
    data = cache_save(cache, s, &size);
    char *more = must_alloc((int64_t)size + 2 * WORD, 1);
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        memcpy(more, data, FIRST + 2 * WORD);
        memcpy(more + RANGES, &ranges, WORD);
        memcpy(more + FIRST + 2 * WORD, seconds[i], 2 * WORD);
        memcpy(more + FIRST + 4 * WORD, data + FIRST + 2 * WORD, size - FIRST - 2 * WORD);
        cache_seal(more, size + 2 * WORD);
        test_check(try(cache, more, size + 2 * WORD) == FOVEA_ERROR_FILE &&
                       strstr(fovea_error_detail(), "an evicted range"),
                   "range %d: %s", (int)i, fovea_error_detail());
    }
    free(data);
    free(more);
    free(s);
    fovea_kv_cache_destroy(cache);
}

/* A length beyond all, of which no token is there. */
static void test_impossible_length(const cache_case *c) {
    enum { LENGTHS = 10 * 8, LAYER = 3 * 8, RANGE = LENGTHS + CACHE_LAYERS * LAYER };
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache);
    const int64_t tokens = 34;
    size_t size;
    cache_append(cache, &s, 1, &tokens, 1);
    test_check(fovea_kv_cache_evict(cache, s->number, 0, tokens) == FOVEA_OK, "evict: %s", fovea_error_detail());
    char *data = cache_save(cache, s, &size);
    for (int more = 0; more < 2; more++) {
        const int64_t length = (INT64_C(1) << 31) + more;
        for (int i = 0; i < CACHE_LAYERS; i++)
            memcpy(data + LENGTHS + i * LAYER + 8, &length, sizeof length);
        memcpy(data + RANGE + 8, &length, sizeof length);
        cache_seal(data, size);
        test_check(try(cache, data, size) == (more ? FOVEA_ERROR_FILE : FOVEA_OK) &&
                       (!more || strstr(fovea_error_detail(), "a length is impossible")),
                   "2^31 + %d tokens: %s", more, fovea_error_detail());
    }
    free(data);
    free(s);
    fovea_kv_cache_destroy(cache);
}

/* Good ones, of caches that differ in one thing. */
static void test_foreign(cache_case c) {
    fovea_rope_desc d;
    fovea_rope *ropes[2];
    fovea_rope_desc_init(&d);
    d.rotary_dim = 16;
    for (int i = 0; i < 2; i++) {
        d.base = 10000.0 + i;
        test_check(fovea_rope_create(&d, &ropes[i]) == FOVEA_OK, "%s", fovea_error_detail());
    }
    c.rope = ropes[0];
    c.windows[1] = 300;
    fovea_kv_cache *from = cache_make(&c);
    shadow *s = make(from, false);
    size_t size;
    char *data = save(from, s->number, &size);
    for (int i = 0; i < 5; i++) {
        cache_case other = c;
        if (i == 0)
            other.rope = ropes[1];
        else if (i == 1)
            other.k_dtype = FOVEA_DTYPE_BF16;
        else if (i == 2)
            other.windows[1] = 301;
        else if (i == 4)
            other.v_dtype = FOVEA_DTYPE_I8;
        else
            other.rope = NULL;
        fovea_kv_cache *to = cache_make(&other);
        test_check(try(to, data, size) == FOVEA_ERROR_INCOMPATIBLE, "cache %d: %s", i, fovea_error_detail());
        fovea_kv_cache_destroy(to);
    }
    test_check(try(from, data, size) == FOVEA_OK, "its own: %s", fovea_error_detail());
    fovea_kv_cache_destroy(from);
    for (int i = 0; i < 2; i++)
        fovea_rope_destroy(ropes[i]);
    free(data);
    free(s);
}

/* Sequences that 0.3 saved (data/saved.py): two layers, the second with a window, of two heads; seven tokens, without 2
 * and 3. */
static void check_recorded(const fovea_context *ctx, fovea_dtype k_dtype, fovea_dtype v_dtype, const char *name) {
    const test_array *const file = test_array_find(name);
    const void *const saved = test_array_data(file);
    const size_t size = (size_t)test_array_count(file);
    enum { LAYERS = 2, HEADS = 2, TOKENS = 7, DIM = 5, VALUES = 3 };
    static const int64_t windows[LAYERS] = {-1, 4};
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    int64_t sequences[2] = {0, 0};
    char again[1024];
    size_t needed;
    fovea_kv_cache_desc_init(&d);
    d.layers = LAYERS;
    d.kv_heads = HEADS;
    d.head_dim = DIM;
    d.value_dim = VALUES;
    d.k_dtype = k_dtype;
    d.v_dtype = v_dtype;
    d.max_pages = 4;
    d.windows = windows;
    test_check(fovea_kv_cache_create(ctx, &d, &cache) == FOVEA_OK, "%s", fovea_error_detail());
    test_check(fovea_kv_cache_load(cache, saved, size, &sequences[0]) == FOVEA_OK, "0.3: %s", fovea_error_detail());
    test_check(fovea_kv_cache_add(cache, &sequences[1]) == FOVEA_OK, "%s", fovea_error_detail());
    for (int layer = 0; layer < LAYERS; layer++) {
        float k[HEADS * TOKENS * DIM], v[HEADS * TOKENS * VALUES];
        for (int i = 0; i < HEADS * TOKENS * DIM; i++)
            k[i] = (float)((i * 37 + layer * 11) % 101 - 50) / 16;
        for (int i = 0; i < HEADS * TOKENS * VALUES; i++)
            v[i] = (float)((i * 53 + layer * 7) % 97 - 48) / 8;
        fovea_kv_append_args a;
        fovea_kv_append_args_init(&a);
        a.layer = layer;
        a.count = 1;
        a.sequences = &sequences[1];
        a.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, DIM);
        a.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, VALUES);
        test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "%s", fovea_error_detail());
    }
    test_check(fovea_kv_cache_evict(cache, sequences[1], 2, 4) == FOVEA_OK, "%s", fovea_error_detail());
    for (int i = 0; i < 2; i++)
        test_check(fovea_kv_cache_save(cache, sequences[i], again, sizeof again, &needed) == FOVEA_OK &&
                       needed == size && memcmp(again, saved, size) == 0,
                   "%s has other bytes than 0.3 saved", i ? "an equal sequence" : "what was loaded");
    fovea_kv_cache_destroy(cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_save", NULL);
    test_arrays_read("saved_0_3");
    const case_contexts x = contexts_make();
    cache_case c = cache_case_make(x.one, x.scalar);
    check_loads(&c, x.scalar, false);
    check_loads(&c, x.three, true);
    c.k_dtype = FOVEA_DTYPE_BF16;
    c.windows[1] = 40;
    check_loads(&c, x.scalar, false);
    check_loads(&c, x.one, true);
    test_hostile(&c);
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_I8;
    check_loads(&c, x.scalar, true);
    test_hostile(&c);
    test_impossible(&c);
    c.k_dtype = FOVEA_DTYPE_I4;
    check_loads(&c, x.scalar, true);
    test_hostile(&c);
    test_impossible_i4(&c);
    c.k_dtype = FOVEA_DTYPE_I8;
    c.v_dtype = FOVEA_DTYPE_F32;
    check_loads(&c, x.one, true);
    test_impossible_parts(cache_case_make(x.one, x.scalar));
    const cache_case plain = cache_case_make(x.one, x.scalar);
    test_impossible_length(&plain);
    test_foreign(plain);
    check_recorded(x.one, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F32, "floats");
    check_recorded(x.one, FOVEA_DTYPE_I8, FOVEA_DTYPE_I8, "i8");
    contexts_free(&x);
    return test_end();
}
