/* Full caches: a call for which a page is missing changes nothing, and one that fits is taken: pages behind windows
 * that all their sequences leave, and begun pages that the last of their sequences need not copy, count. */
#include "cache_case.h"

#include <stdlib.h>

static fovea_status append(fovea_kv_cache *cache, shadow *s, int64_t tokens, int32_t first) {
    return cache_append(cache, &s, 1, &tokens, first);
}

/* A step for which a page is missing changes nothing, and the same step fits once there is that page. */
static void test_full(cache_case c) {
    c.max_pages = 2 * CACHE_LAYERS - 1;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache);
    test_check(append(cache, s, 256, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(append(cache, s, 1, 300) == FOVEA_ERROR_FULL, "%d layers on one page", CACHE_LAYERS);
    test_check(cache_stats(cache).used_pages == CACHE_LAYERS, "a full cache: pages were taken");
    test_check(cache_append_one(cache, s, 0) == FOVEA_OK, "the last page: %s", fovea_error_detail());
    test_check(cache_append_one(cache, s, 1) == FOVEA_ERROR_FULL, "a page that there is not");
    test_check(fovea_kv_cache_truncate(cache, s->number, 256) == FOVEA_OK, "cut: %s", fovea_error_detail());
    test_check(cache_stats(cache).used_pages == CACHE_LAYERS, "%d pages after cutting",
               (int)cache_stats(cache).used_pages);
    cache_check(&c, cache, &s, 1, 9, "full");
    test_check(fovea_kv_cache_truncate(cache, s->number, 250) == FOVEA_OK, "cut: %s", fovea_error_detail());
    s->length = 250;
    shadow *fork = cache_fork(cache, s), *both[2] = {s, fork}; /* each needs pages of its own */
    test_check(append(cache, fork, 1, 400) == FOVEA_ERROR_FULL, "copies of %d layers on one page", CACHE_LAYERS);
    test_check(cache_stats(cache).copied_pages == 0 && cache_stats(cache).shared_pages == CACHE_LAYERS,
               "full: was copied");
    cache_check(&c, cache, both, 2, 9, "full, forked");
    test_check(fovea_kv_cache_remove(cache, fork->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
    test_check(append(cache, s, 6, 500) == FOVEA_OK, "nobody shares them: %s", fovea_error_detail());
    cache_check(&c, cache, &s, 1, 9, "full, alone");
    fovea_kv_cache_destroy(cache);
    free(fork);
    free(s);
}

/* Where a step does not fit, not even pages behind windows go. */
static void test_full_windows(cache_case c) {
    c.windows[0] = 10;
    c.max_pages = 5;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s = cache_add(cache);
    test_check(append(cache, s, 500, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(append(cache, s, 300, 600) == FOVEA_ERROR_FULL, "4 pages on one and one behind a window");
    test_check(cache_stats(cache).used_pages == 4 && cache_stats(cache).window_pages == 0,
               "full: pages behind a window went");
    test_check(fovea_kv_cache_truncate(cache, s->number, 200) == FOVEA_OK, "cut: %s", fovea_error_detail());
    s->length = 200;
    test_check(append(cache, s, 3, 700) == FOVEA_OK, "append: %s", fovea_error_detail());
    cache_check(&c, cache, &s, 1, 203, "full, cut");
    fovea_kv_cache_destroy(cache);
    free(s);
}

/* Forks in one call leave a page behind their windows that they share: it counts as theirs, unless another sequence
 * has it, too. */
static void test_leave_together(cache_case c) {
    c.windows[0] = c.windows[1] = 10;
    c.max_pages = 3 * CACHE_LAYERS;
    fovea_kv_cache *cache = cache_make(&c);
    const int64_t tokens[2] = {1, 1};
    shadow *s = cache_add(cache);
    test_check(append(cache, s, 300, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    shadow *both[2] = {s, cache_fork(cache, s)}, *third = cache_fork(cache, s);
    test_check(cache_append(cache, both, 2, tokens, 400) == FOVEA_ERROR_FULL, "pages that a third sequence has");
    fovea_kv_stats now = cache_stats(cache);
    test_check(now.used_pages == 2 * CACHE_LAYERS && now.shared_pages == 2 * CACHE_LAYERS && now.window_pages == 0 &&
                   now.copied_pages == 0,
               "full: %d pages, %d shared", (int)now.used_pages, (int)now.shared_pages);
    test_check(fovea_kv_cache_remove(cache, third->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
    test_check(cache_append(cache, both, 2, tokens, 500) == FOVEA_OK, "both leave a page: %s", fovea_error_detail());
    now = cache_stats(cache);
    test_check(now.used_pages == 2 * CACHE_LAYERS && now.shared_pages == 0 && now.window_pages == 2 * CACHE_LAYERS,
               "both left a page: %d pages, %d shared", (int)now.used_pages, (int)now.shared_pages);
    cache_check(&c, cache, both, 2, 1, "forks that left a page together");
    fovea_kv_cache_destroy(cache);
    free(third);
    free(both[1]);
    free(s);
}

/* Forks of different lengths grow in one call: as many pages as if one grew after the other, as the last may write to
 * what they shared. */
static void test_grow_together(cache_case c) {
    const int64_t tokens[3] = {3, 2, 4};
    for (int i = 0; i < 4; i++) { /* the last: a page is missing, as a sequence outside the call shares theirs */
        c.max_pages = 3 * CACHE_LAYERS;
        fovea_kv_cache *cache = cache_make(&c);
        shadow *s[4] = {cache_add(cache)};
        test_check(append(cache, s[0], 30, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
        for (int j = 1; j < 4; j++)
            s[j] = cache_fork(cache, s[0]);
        if (i < 3) {
            test_check(fovea_kv_cache_remove(cache, s[3]->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
            test_check(fovea_kv_cache_truncate(cache, s[i]->number, 17) == FOVEA_OK, "cut: %s", fovea_error_detail());
            s[i]->length = 17;
        }
        const fovea_status status = cache_append(cache, s, 3, tokens, 600);
        const fovea_kv_stats now = cache_stats(cache);
        test_check(status == (i < 3 ? FOVEA_OK : FOVEA_ERROR_FULL), "three forks on three pages: %s",
                   fovea_error_detail());
        test_check(now.copied_pages == (i < 3 ? 2 * CACHE_LAYERS : 0) &&
                       now.used_pages == (i < 3 ? 3 : 1) * CACHE_LAYERS &&
                       now.shared_pages == (i < 3 ? 0 : CACHE_LAYERS),
                   "forks that grew together: %d pages, %d shared, %d copied", (int)now.used_pages,
                   (int)now.shared_pages, (int)now.copied_pages);
        cache_check(&c, cache, s, 3, 1, "forks that grew together");
        fovea_kv_cache_destroy(cache);
        for (int j = 0; j < 4; j++)
            free(s[j]);
    }
}

/* Pages that a sequence reserved stay its own when it is forked. */
static void test_reserved(const cache_case *c, int64_t length) {
    const int64_t more = 300, after = (length + more + 255) / 256, shared = (length + 255) / 256;
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = cache_add(cache);
    test_check(append(cache, s, length, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(fovea_kv_cache_reserve(cache, 1, &s->number, &more) == FOVEA_OK, "%s", fovea_error_detail());
    shadow *both[2] = {s, cache_fork(cache, s)};
    const fovea_kv_stats now = cache_stats(cache);
    test_check(now.used_pages == after * CACHE_LAYERS && now.shared_pages == shared * CACHE_LAYERS,
               "reserved: %d pages, %d shared", (int)now.used_pages, (int)now.shared_pages);
    for (int i = 0; i < 2; i++)
        test_check(append(cache, both[i], 70, 500 + 100 * i) == FOVEA_OK, "append: %s", fovea_error_detail());
    cache_check(c, cache, both, 2, 5, "a fork of a sequence with reserved pages");
    fovea_kv_cache_destroy(cache);
    free(both[1]);
    free(s);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_full", NULL);
    const case_contexts x = contexts_make();
    cache_case c = cache_case_make(x.one, x.scalar);
    test_full(c);
    test_full_windows(c);
    test_leave_together(c);
    test_grow_together(c);
    test_reserved(&c, 200);
    test_reserved(&c, 256);
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_I8;
    test_grow_together(c);
    contexts_free(&x);
    return test_end();
}
