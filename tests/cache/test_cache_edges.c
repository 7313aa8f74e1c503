/* Caches at their edges: windows at the key where a page goes, forks behind windows, shared pages that end inside a
 * call's queries, ranges that touch or are cut, keys that are rotated already, positions up to the last. */
#include "cache_case.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static fovea_status append(fovea_kv_cache *cache, shadow *s, int64_t tokens, int32_t first) {
    return cache_append(cache, &s, 1, &tokens, first);
}

/* Counts of fovea_kv_cache_stats(), after each thing that changes it. */
static void test_statistics(const cache_case *c) {
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache), *fork;
    const int64_t layers = CACHE_LAYERS, row = CACHE_KV_HEADS * (CACHE_DIM + CACHE_VALUES) * (int64_t)sizeof(float);
    test_check(append(cache, s, 300, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    fork = cache_fork(cache, s);
    fovea_kv_stats now = cache_stats(cache);
    test_check(now.used_pages == 2 * layers && now.shared_pages == 2 * layers && now.sequences == 2 &&
                   now.copied_pages == 0 && now.appended_tokens == 300 * layers && now.max_pages == c->max_pages &&
                   now.token_bytes == layers * row && now.page_bytes == 256 * row,
               "statistics of a fork");
    test_check(append(cache, fork, 1, 400) == FOVEA_OK, "append: %s", fovea_error_detail());
    now = cache_stats(cache);
    test_check(now.used_pages == 3 * layers && now.shared_pages == layers && now.copied_pages == layers &&
                   now.appended_tokens == 301 * layers && now.peak_pages == 3 * layers,
               "statistics of a fork that grew");
    test_check(fovea_kv_cache_remove(cache, fork->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
    int64_t other = -1;
    test_check(fovea_kv_cache_add(cache, &other) == FOVEA_OK && other != fork->number && other != s->number,
               "a number was given again");
    test_check(fovea_kv_cache_remove(cache, other) == FOVEA_OK, "remove: %s", fovea_error_detail());
    test_check(fovea_kv_cache_evict(cache, s->number, 0, 256) == FOVEA_OK, "evict: %s", fovea_error_detail());
    now = cache_stats(cache);
    test_check(now.used_pages == layers && now.shared_pages == 0 && now.sequences == 1 && now.evicted_pages == layers &&
                   now.peak_pages == 3 * layers && now.window_pages == 0,
               "statistics of a sequence of which a page was evicted");
    fovea_kv_cache_destroy(cache);
    free(fork);
    free(s);
}

/* How attention of a plan with other windows, over fewer keys or with scores answers for the last token of a
 * sequence. */
static fovea_status attend_with(const cache_case *c, fovea_kv_cache *cache, const shadow *s, int64_t window,
                                const int64_t *keys, const fovea_attention_scores *scores) {
    float q[CACHE_Q_HEADS * CACHE_DIM], out[CACHE_Q_HEADS * CACHE_VALUES];
    fovea_attention_desc d = cache_desc(c, 0, 1, 1, CACHE_LONGEST);
    fovea_attention_args args;
    d.window_left = window;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    cache_queries(s, 0, 1, q);
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, CACHE_VALUES);
    args.cache = cache;
    args.cache_sequences = &s->number;
    args.kv_lens = keys;
    args.scores = scores;
    fovea_status status = attention_once(c->ctx, &d, &args);
    return status;
}

/* A window of 300: the token at 555 sees the last key of a page, the next one does not. */
static void test_window_edge(cache_case c) {
    c.windows[0] = 300;
    c.windows[1] = 300;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache);
    test_check(append(cache, s, 555, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    for (int i = 0; i < 2; i++) {
        test_check(append(cache, s, 1, 600 + i) == FOVEA_OK, "append: %s", fovea_error_detail());
        test_check(cache_stats(cache).window_pages == i * CACHE_LAYERS, "position %d: %d pages went", 555 + i,
                   (int)cache_stats(cache).window_pages);
        cache_check(&c, cache, &s, 1, 1, "the edge of a window");
    }
    float to[CACHE_Q_HEADS];
    fovea_attention_scores scores;
    fovea_attention_scores_init(&scores);
    scores.out = fovea_tensor_bhtd(to, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, 1, 1);
    for (int kind = 0; kind < 4; kind++) { /* the first key's: it is gone */
        const bool masked = kind >= FOVEA_SCORES_BIASED;
        scores.kind = (fovea_score_kind)kind;
        to[0] = 7;
        test_check(attend_with(&c, cache, s, 300, NULL, &scores) == (masked ? FOVEA_OK : FOVEA_ERROR_UNSUPPORTED),
                   "scores of kind %d of a key that is gone", kind);
        const float want = !masked ? 7 : kind == FOVEA_SCORES_BIASED ? -INFINITY : 0;
        test_check(to[0] == want, "kind %d of a key that is gone: %g", kind, (double)to[0]);
    }
    shadow *fork = cache_fork(cache, s), *both[2] = {s, fork}; /* of what is gone, forks lack as much */
    for (int i = 0; i < 2; i++) {
        test_check(attend_with(&c, cache, both[i], 300, NULL, NULL) == FOVEA_OK, "%s", fovea_error_detail());
        test_check(attend_with(&c, cache, both[i], 301, NULL, NULL) == FOVEA_ERROR_ARGUMENT, "a wider window");
        test_check(attend_with(&c, cache, both[i], -1, NULL, NULL) == FOVEA_ERROR_ARGUMENT, "no window");
        test_check(fovea_kv_cache_truncate(cache, both[i]->number, 555) == FOVEA_ERROR_ARGUMENT, "cut behind a window");
        test_check(fovea_kv_cache_truncate(cache, both[i]->number, 556) == FOVEA_OK, "%s", fovea_error_detail());
        both[i]->length = 556;
        test_check(append(cache, both[i], 2, 700 + 10 * i) == FOVEA_OK, "append: %s", fovea_error_detail());
    }
    cache_check(&c, cache, both, 2, 2, "the edge of a window, cut and forked");
    fovea_kv_cache_destroy(cache);
    free(fork);
    free(s);
}

/* Page after page is evicted in two parts, in either order: no part alone has all of it. */
static void test_touching(const cache_case *c) {
    static const int64_t ranges[][2] = {{0, 100},   {100, 256}, {300, 512}, {256, 300},
                                        {600, 600}, {640, 700}, {620, 650}};
    static const int pages[] = {3, 2, 2, 1, 1, 1, 1}; /* of each layer, of 700 tokens */
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache), *loaded = must_alloc(1, sizeof *loaded);
    test_check(append(cache, s, 700, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const int64_t begin = ranges[i][0], end = ranges[i][1];
        test_check(fovea_kv_cache_evict(cache, s->number, begin, end) == FOVEA_OK, "evict: %s", fovea_error_detail());
        memset(s->attended + begin, 0, (size_t)(end - begin));
        test_check(cache_stats(cache).used_pages == pages[i] * CACHE_LAYERS, "range %d: %d pages are left", (int)i,
                   (int)cache_stats(cache).used_pages);
        size_t size;
        char *data = cache_save(cache, s, &size);
        *loaded = *s;
        test_check(fovea_kv_cache_load(cache, data, size, &loaded->number) == FOVEA_OK, "load: %s",
                   fovea_error_detail());
        test_check(cache_stats(cache).used_pages == 2 * pages[i] * CACHE_LAYERS,
                   "range %d: %d pages with what was loaded", (int)i, (int)cache_stats(cache).used_pages);
        cache_check(c, cache, (shadow *[]){s, loaded}, 2, 5, "ranges that touch");
        test_check(fovea_kv_cache_remove(cache, loaded->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
        free(data);
    }
    fovea_kv_cache_destroy(cache);
    free(loaded);
    free(s);
}

/* Cut inside an evicted range, or where one begins, a sequence goes on with tokens that are seen: in a page that
 * stayed, in one that had gone, at its edge. */
static void test_cut_evicted(const cache_case *c) {
    static const int64_t cases[][3] = {{200, 530, 400}, {200, 530, 520}, {200, 530, 200},
                                       {100, 800, 600}, {100, 800, 512}, {0, 700, 300}}; /* begin, end, length */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_kv_cache *cache = cache_make(c);
        const int64_t begin = cases[i][0], end = cases[i][1], length = cases[i][2];
        shadow *s[3] = {cache_add(cache)};
        size_t size;
        test_check(append(cache, s[0], 900, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
        test_check(fovea_kv_cache_evict(cache, s[0]->number, begin, end) == FOVEA_OK, "%s", fovea_error_detail());
        memset(s[0]->attended + begin, 0, (size_t)(end - begin));
        test_check(fovea_kv_cache_truncate(cache, s[0]->number, length) == FOVEA_OK, "%s", fovea_error_detail());
        s[0]->length = length;
        s[1] = cache_fork(cache, s[0]);
        s[2] = must_alloc(1, sizeof *s[2]);
        *s[2] = *s[0];
        char *data = cache_save(cache, s[0], &size);
        test_check(fovea_kv_cache_load(cache, data, size, &s[2]->number) == FOVEA_OK, "%s", fovea_error_detail());
        const int64_t tokens[3] = {1, 300, 7};
        test_check(cache_append(cache, s, 3, tokens, 2000) == FOVEA_OK, "append: %s", fovea_error_detail());
        cache_check(c, cache, s, 3, 1, "cut inside what was evicted");
        for (int j = 0; j < 3; j++)
            test_check(append(cache, s[j], 20, 4000 + 100 * j) == FOVEA_OK, "append: %s", fovea_error_detail());
        cache_check(c, cache, s, 3, 5, "cut inside what was evicted, and longer");
        free(data);
        for (int j = 0; j < 3; j++)
            free(s[j]);
        fovea_kv_cache_destroy(cache);
    }
}

/* Forks that share a page whose last keys are among the call's queries: not all of these see all of it. */
static void test_page_ends_in_queries(cache_case c, const fovea_context *threads) {
    static const int64_t lengths[] = {256, 257, 259, 513};
    const fovea_context *one = c.ctx;
    for (int i = 0; i < 4; i++) {
        fovea_kv_cache *cache = cache_make(&c);
        shadow *s[3] = {cache_add(cache)};
        test_check(append(cache, s[0], lengths[i], 1) == FOVEA_OK, "append: %s", fovea_error_detail());
        s[1] = cache_fork(cache, s[0]);
        s[2] = cache_fork(cache, s[0]);
        test_check(append(cache, s[2], 1, 2000) == FOVEA_OK, "append: %s", fovea_error_detail());
        for (int64_t rows = 1; rows <= 5; rows += 2) {
            c.ctx = rows == 3 ? threads : one;
            c.offsets = (rows + i) % 4 == 1;
            cache_check(&c, cache, s, 3, rows, "a shared page that ends inside the queries");
        }
        fovea_kv_cache_destroy(cache);
        for (int j = 0; j < 3; j++)
            free(s[j]);
    }
}

/* Weights, chosen weights, or entropies of the last tokens of sequences: [count][CACHE_Q_HEADS][keys, or 1]. */
static void outputs_of(const cache_case *c, fovea_kv_cache *cache, shadow *const *s, int64_t count, int what,
                       float *to) {
    enum { MOST = 2 };
    float q[MOST * CACHE_Q_HEADS * CACHE_DIM], out[MOST * CACHE_Q_HEADS * CACHE_VALUES];
    fovea_attention_desc d = cache_desc(c, 0, count, 1, CACHE_LONGEST);
    fovea_attention_args args;
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    int64_t numbers[MOST];
    fovea_attention_args_init(&args);
    fovea_attention_scores_init(&scores);
    fovea_attention_summary_init(&summary);
    for (int64_t i = 0; i < count; i++) {
        cache_queries(s[i], 0, 1, q + i * CACHE_Q_HEADS * CACHE_DIM);
        numbers[i] = s[i]->number;
    }
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, count, CACHE_Q_HEADS, 1, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, count, CACHE_Q_HEADS, 1, CACHE_VALUES);
    args.cache = cache;
    args.cache_sequences = numbers;
    const fovea_tensor t =
        fovea_tensor_bhtd(to, FOVEA_DTYPE_F32, count, CACHE_Q_HEADS, 1, what == 2 ? 1 : CACHE_LONGEST);
    scores.kind = FOVEA_SCORES_WEIGHTS;
    *(what == 0 ? &args.weights : what == 1 ? &scores.out : &summary.entropy) = t;
    args.scores = what == 1 ? &scores : NULL;
    args.summary = what == 2 ? &summary : NULL;
    fovea_status status = attention_once(c->ctx, &d, &args);
    test_check(status == FOVEA_OK, "outputs: %s", fovea_error_detail());
}

/* Outputs other than out are of all keys, those of shared pages, too. */
static void test_outputs_of_shared(const cache_case *c) {
    enum { MOST = 2 * CACHE_Q_HEADS * CACHE_LONGEST };
    static float together[MOST], alone[MOST];
    fovea_kv_cache *cache = cache_make(c);
    shadow *s[2] = {cache_add(cache)};
    test_check(append(cache, s[0], 600, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    s[1] = cache_fork(cache, s[0]);
    test_check(append(cache, s[1], 9, 2000) == FOVEA_OK, "append: %s", fovea_error_detail());
    for (int what = 0; what < 3; what++) {
        const int64_t each = CACHE_Q_HEADS * (what == 2 ? 1 : CACHE_LONGEST);
        outputs_of(c, cache, s, 2, what, together);
        outputs_of(c, cache, s, 1, what, alone);
        outputs_of(c, cache, s + 1, 1, what, alone + each);
        test_same(together, alone, 2 * each, "output %d of forks", what);
    }
    fovea_kv_cache_destroy(cache);
    free(s[0]);
    free(s[1]);
}

/* Keys of a shadow, rotated by the caller, to each layer. */
static void test_turned(const cache_case *c) {
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache), *turned = must_alloc(1, sizeof *turned);
    test_check(append(cache, s, 40, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    *turned = *s;
    test_check(fovea_kv_cache_add(cache, &turned->number) == FOVEA_OK, "add: %s", fovea_error_detail());
    for (int64_t layer = 0; layer < CACHE_LAYERS; layer++) {
        float *k = cache_rows(c, s, layer, false), *v = cache_rows(c, s, layer, true);
        fovea_kv_append_args a;
        fovea_kv_append_args_init(&a);
        a.layer = layer;
        a.count = 1;
        a.sequences = &turned->number;
        a.rotated = 1;
        a.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 40, CACHE_DIM);
        a.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 40, CACHE_VALUES);
        test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "append: %s", fovea_error_detail());
        free(k);
        free(v);
    }
    cache_check(c, cache, (shadow *[]){s, turned}, 2, 7, "turned already");
    fovea_kv_cache_destroy(cache);
    free(turned);
    free(s);
}

/* A sequence of millions of tokens, all but the last evicted, is loaded from bytes that say so. A rope takes it to its
 * last position. Attention over its first keys has room for no more of them. */
static void test_last_position(const cache_case *c) {
    enum { WORD = 8, HEAD = 10 * WORD, LAYER = 3 * WORD };
    const int64_t length = FOVEA_ROPE_MAX_POSITION, end = length - 1;
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache);
    size_t size;
    test_check(append(cache, s, 300, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(fovea_kv_cache_evict(cache, s->number, 0, 299) == FOVEA_OK, "evict: %s", fovea_error_detail());
    char *data = cache_save(cache, s, &size);
    for (int i = 0; i < CACHE_LAYERS; i++)
        memcpy(data + HEAD + i * LAYER + WORD, &length, sizeof length);
    memcpy(data + HEAD + CACHE_LAYERS * LAYER + WORD, &end, sizeof end);
    cache_seal(data, size);
    test_check(fovea_kv_cache_load(cache, data, size, &s->number) == FOVEA_OK, "load: %s", fovea_error_detail());
    s->length = 300;
    test_check(attend_with(c, cache, s, -1, &s->length, NULL) == FOVEA_OK, "its first keys: %s", fovea_error_detail());
    test_check(cache_append_one(cache, s, 0) == FOVEA_OK, "the last position: %s", fovea_error_detail());
    test_check(cache_append_one(cache, s, 0) == FOVEA_ERROR_ARGUMENT, "a position that a rope has not");
    test_check(cache_append_one(cache, s, 1) == FOVEA_OK, "another layer: %s", fovea_error_detail());
    fovea_kv_cache_destroy(cache);
    free(data);
    free(s);
}

/* A two-dimensional window has the positions of the sequence, not of desc.kv_len, which may be more. */
static void test_window_2d(const cache_case *c) {
    enum { SIDE = 4, TOKENS = SIDE * SIDE, ROOM = 64 };
    static float k[CACHE_KV_HEADS * TOKENS * CACHE_DIM], v[CACHE_KV_HEADS * TOKENS * CACHE_VALUES], table[49];
    static float want[CACHE_KV_HEADS * TOKENS * CACHE_VALUES], got[CACHE_KV_HEADS * TOKENS * CACHE_VALUES];
    rng r = rng_stream(test_seed(), "window");
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        k[i] = rng_normal(&r);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        v[i] = rng_normal(&r);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = rng_normal(&r);
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache);
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &s->number;
    a.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, TOKENS, CACHE_DIM);
    a.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, TOKENS, CACHE_VALUES);
    test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "append: %s", fovea_error_detail());
    for (int pages = 0; pages < 2; pages++) {
        fovea_attention_desc d;
        fovea_attention_args args;
        fovea_attention_plan *plan;
        fovea_attention_desc_init(&d);
        d.q_heads = d.kv_heads = CACHE_KV_HEADS;
        d.q_len = TOKENS;
        d.kv_len = pages ? ROOM : TOKENS;
        d.head_dim = CACHE_DIM;
        d.value_dim = CACHE_VALUES;
        d.relative = FOVEA_RELATIVE_WINDOW_2D;
        d.relative_height = d.relative_width = SIDE;
        d.page_keys = pages ? 256 : 0;
        test_check(fovea_attention_plan_create(c->ctx, &d, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
        fovea_attention_args_init(&args);
        args.q = a.k;
        if (pages) {
            args.cache = cache;
            args.cache_sequences = &s->number;
        } else {
            args.k = a.k;
            args.v = a.v;
        }
        args.out = fovea_tensor_bhtd(pages ? got : want, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, TOKENS, CACHE_VALUES);
        args.relative = fovea_tensor_bhtd(table, FOVEA_DTYPE_F32, 1, 1, 1, 49);
        test_check(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK, "execute: %s", fovea_error_detail());
        if (pages) {
            test_check(memcmp(want, got, sizeof want) == 0, "a window over a cache has other bits than over tensors");
            test_check(cache_append_one(cache, s, 0) == FOVEA_OK, "append: %s", fovea_error_detail());
            test_check(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_ERROR_SHAPE, "more keys than positions");
            test_check(memcmp(want, got, sizeof want) == 0, "a refused call wrote");
        }
        fovea_attention_plan_destroy(plan);
    }
    fovea_kv_cache_destroy(cache);
    free(s);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_edges", NULL);
    const case_contexts x = contexts_make();
    cache_case c = cache_case_make(x.one, x.scalar);
    test_statistics(&c);
    test_window_edge(c);
    test_touching(&c);
    test_cut_evicted(&c);
    test_page_ends_in_queries(c, x.three);
    test_outputs_of_shared(&c);
    test_window_2d(&c);
    fovea_rope_desc d;
    fovea_rope *rope;
    fovea_rope_desc_init(&d);
    d.rotary_dim = 16;
    test_check(fovea_rope_create(&d, &rope) == FOVEA_OK, "rope: %s", fovea_error_detail());
    c.rope = rope;
    test_window_edge(c);
    test_touching(&c);
    test_turned(&c);
    test_last_position(&c);
    fovea_rope_destroy(rope);
    contexts_free(&x);
    return test_end();
}
