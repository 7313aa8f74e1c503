/* Memory from the heap (test_allocation.c): each call of a cache is made with its 1st, 2nd ... allocation failing until
 * it gets through. A failed one has changed nothing: what the cache holds at the end gives the bits of contiguous
 * tensors, and nothing is left. Appending what was reserved, and attention with a workspace, take none. */
#include "cache/cache.h"
#include "cache_case.h"
#include "failing.h"

#include <stdlib.h>
#include <string.h>

/* A call that may keep memory for the next one. */
#define EACH(text, call)                                                                                               \
    FAIL_EACH(text, 0, false, (f.keeps = true, call)) {}

static fovea_status evict(fovea_kv_cache *cache, shadow *s, int64_t begin, int64_t end) {
    const fovea_status status = fovea_kv_cache_evict(cache, s->number, begin, end);
    for (int64_t i = begin; i < end && status == FOVEA_OK; i++)
        s->attended[i] = 0;
    return status;
}

/* Appends with rows of the test's own, so that only the library allocates. */
static fovea_status append(fovea_kv_cache *cache, int64_t layer, int64_t sequence, float *rows) {
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.layer = layer;
    a.count = 1;
    a.sequences = &sequence;
    a.k = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 5, CACHE_DIM);
    a.v = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, CACHE_KV_HEADS, 5, CACHE_VALUES);
    return fovea_kv_cache_append(cache, &a);
}

static void test_calls(const cache_case *c) {
    static float rows[CACHE_KV_HEADS * 5 * CACHE_VALUES];
    const int64_t tokens[2] = {600, 300}, more[1] = {5};
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.layers = CACHE_LAYERS;
    d.kv_heads = CACHE_KV_HEADS;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.max_pages = 64;
    d.windows = c->windows;
    d.k_dtype = c->k_dtype;
    d.v_dtype = c->v_dtype;
    const long long before = live;
    EACH("create", fovea_kv_cache_create(c->ctx, &d, &cache));
    shadow *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = must_alloc(1, sizeof *s[i]);
        s[i]->length = 0;
    }
    for (int i = 0; i < 2; i++)
        EACH("add", fovea_kv_cache_add(cache, &s[i]->number));
    const int64_t numbers[2] = {s[0]->number, s[1]->number};
    EACH("reserve", fovea_kv_cache_reserve(cache, 2, numbers, tokens));
    test_check(cache_append(cache, s, 2, tokens, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    EACH("evict", evict(cache, s[0], 3, 9));
    EACH("evict", evict(cache, s[0], 30, 300));
    *s[2] = *s[0];
    EACH("fork", fovea_kv_cache_fork(cache, s[0]->number, &s[2]->number));
    cache_check(c, cache, s, 3, 4, "after failures");

    EACH("reserve", fovea_kv_cache_reserve(cache, 1, &s[2]->number, more));
    const long long calls_before = calls;
    for (int64_t layer = 0; layer < CACHE_LAYERS; layer++)
        test_check(append(cache, layer, s[2]->number, rows) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(calls == calls_before, "an append of what was reserved allocates %lld times", calls - calls_before);
    int64_t fifth, loaded;
    EACH("add", fovea_kv_cache_add(cache, &fifth));
    for (int64_t layer = 0; layer < CACHE_LAYERS; layer++)
        EACH("append", append(cache, layer, fifth, rows));

    size_t size;
    test_check(fovea_kv_cache_save(cache, s[0]->number, NULL, 0, &size) == FOVEA_OK, "%s", fovea_error_detail());
    void *data = must_alloc((int64_t)size, 1);
    EACH("save", fovea_kv_cache_save(cache, s[0]->number, data, size, &size));
    EACH("load", fovea_kv_cache_load(cache, data, size, &loaded));
    s[0]->number = loaded;
    cache_check(c, cache, s, 1, 4, "loaded after failures");
    free(data);
    fovea_kv_cache_destroy(cache);
    for (int i = 0; i < 3; i++)
        free(s[i]);
    test_check(live == before, "%lld blocks are left", live - before);
}

static void test_attention(const cache_case *c) {
    enum { COUNT = 3 };
    static float q[COUNT * CACHE_Q_HEADS * CACHE_DIM], out[COUNT * CACHE_Q_HEADS * CACHE_VALUES];
    const int64_t tokens[1] = {600};
    fovea_kv_cache *cache = cache_make(c);
    shadow *s = must_alloc(1, sizeof *s);
    int64_t numbers[COUNT];
    s->length = 0;
    fovea_kv_cache_add(cache, &s->number);
    cache_append(cache, &s, 1, tokens, 1);
    numbers[0] = s->number;
    for (int i = 1; i < COUNT; i++)
        fovea_kv_cache_fork(cache, s->number, &numbers[i]);
    fovea_attention_desc d;
    fovea_attention_args args;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&d);
    d.batch = COUNT;
    d.q_heads = CACHE_Q_HEADS;
    d.kv_heads = CACHE_KV_HEADS;
    d.q_len = 1;
    d.kv_len = 700;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    d.k_dtype = c->k_dtype;
    d.v_dtype = c->v_dtype;
    const long long before = live;
    EACH("plan", fovea_attention_plan_create(c->ctx, &d, &plan));
    const size_t size = fovea_attention_plan_workspace_size(plan);
    void *workspace = must_alloc((int64_t)size, 1);
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, COUNT, CACHE_Q_HEADS, 1, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, COUNT, CACHE_Q_HEADS, 1, CACHE_VALUES);
    args.cache = cache;
    args.cache_sequences = numbers;
    const long long calls_before = calls;
    test_check(fovea_attention_execute(plan, &args, workspace, size) == FOVEA_OK, "%s", fovea_error_detail());
    test_check(calls == calls_before, "attention with a workspace allocates %lld times", calls - calls_before);
    EACH("attention", fovea_attention_execute(plan, &args, NULL, 0));
    free(workspace);
    fovea_attention_plan_destroy(plan);
    test_check(live == before, "%lld blocks are left of a plan", live - before);
    fovea_kv_cache_destroy(cache);
    free(s);
}

/* A file of 872 bytes may say that 32 layers have 2^31 positions, all of them evicted: neither loading it nor a fork
 * takes more memory than its size explains, and what is appended then follows there. */
static void test_evicted_file(const fovea_context *ctx) {
    enum { LAYERS = 32, WORD = 8, HEAD = 10 * WORD, LAYER = 3 * WORD, SIZE = HEAD + LAYERS * LAYER + 3 * WORD };
    const int64_t length = (int64_t)1 << 31, ranges = 1, begin = 0;
    static float rows[5 * CACHE_KV_HEADS * CACHE_VALUES];
    static shadow s;
    char *empty, data[SIZE] = {0};
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    int64_t fork = -1;
    size_t size;
    fovea_kv_cache_desc_init(&d);
    d.layers = LAYERS;
    d.kv_heads = CACHE_KV_HEADS;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.max_pages = 2;
    test_check(fovea_kv_cache_create(ctx, &d, &cache) == FOVEA_OK, "create: %s", fovea_error_detail());
    test_check(fovea_kv_cache_add(cache, &s.number) == FOVEA_OK, "add: %s", fovea_error_detail());
    empty = cache_save(cache, &s, &size);
    test_check(size == SIZE - 2 * WORD, "an empty sequence has %d bytes", (int)size);
    memcpy(data, empty, HEAD + LAYERS * LAYER);
    memcpy(data + HEAD - 2 * WORD, &ranges, WORD);
    for (int i = 0; i < LAYERS; i++)
        memcpy(data + HEAD + i * LAYER + WORD, &length, WORD);
    memcpy(data + HEAD + LAYERS * LAYER, &begin, WORD);
    memcpy(data + HEAD + LAYERS * LAYER + WORD, &length, WORD);
    cache_seal(data, SIZE);
    const long long before = asked;
    test_check(fovea_kv_cache_load(cache, data, SIZE, &s.number) == FOVEA_OK, "load: %s", fovea_error_detail());
    test_check(fovea_kv_cache_fork(cache, s.number, &fork) == FOVEA_OK, "fork: %s", fovea_error_detail());
    test_check(append(cache, 3, fork, rows) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(fovea_kv_cache_evict(cache, fork, 7, length) == FOVEA_OK, "evict: %s", fovea_error_detail());
    test_check(fovea_kv_cache_truncate(cache, fork, length - 300) == FOVEA_OK, "cut: %s", fovea_error_detail());
    test_check(append(cache, 3, fork, rows) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(asked - before < 16384, "%lld bytes for %d that were loaded, and a fork", asked - before, SIZE);
    test_check(cache_stats(cache).used_pages == 1, "%d pages", (int)cache_stats(cache).used_pages);
    fovea_kv_cache_destroy(cache);
    free(empty);
}

/* Interleaved keys end with zeros where their last word has room for more channels, whatever the memory held before. */
static void test_padding(const fovea_context *ctx, fovea_dtype dtype) {
    enum { DIM = 5, TOKENS = 40 };
    float rows[TOKENS * DIM];
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_append_args a;
    int64_t sequence;
    for (int i = 0; i < TOKENS * DIM; i++)
        rows[i] = 1.0f;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = d.max_pages = 1;
    d.head_dim = d.value_dim = DIM;
    d.k_dtype = dtype;
    test_check(fovea_kv_cache_create(ctx, &d, &cache) == FOVEA_OK, "create: %s", fovea_error_detail());
    test_check(fovea_kv_cache_add(cache, &sequence) == FOVEA_OK, "add: %s", fovea_error_detail());
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &sequence;
    a.k = a.v = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, 1, TOKENS, DIM);
    test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "append: %s", fovea_error_detail());
    const fv_pages *pages = fv_cache_pages(cache);
    test_check(pages->part[FV_KEYS].word > 0, "keys are not interleaved");
    for (int64_t key = 0; key < TOKENS; key++) {
        const uint16_t *group =
            (const uint16_t *)(const void *)fv_page_at(pages, FV_KEYS, 0, 0, key / FV_KEY_GROUP * FV_KEY_GROUP);
        const fv_operand panel = {.row = FV_KEY_GROUP, .format = FV_FORMAT_bf16x2};
        test_check(group[fv_operand_place(&panel, DIM - 1, key % FV_KEY_GROUP)] != 0 &&
                       group[fv_operand_place(&panel, DIM, key % FV_KEY_GROUP)] == 0,
                   "key %d does not end with zero", (int)key);
    }
    fovea_kv_cache_destroy(cache);
}

static void test_rope(void) {
    fovea_rope_desc d;
    fovea_rope *rope;
    const long long before = live;
    fovea_rope_desc_init(&d);
    d.rotary_dim = 8;
    EACH("rope", fovea_rope_create(&d, &rope));
    fovea_rope_destroy(rope);
    test_check(live == before, "%lld blocks are left of a rope", live - before);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_cache", NULL);
    const case_contexts x = contexts_make();
    cache_case c = cache_case_make(x.one, x.scalar);
    test_calls(&c);
    test_attention(&c);
    c.k_dtype = c.v_dtype = FOVEA_DTYPE_I8;
    test_calls(&c);
    test_attention(&c);
    test_rope();
    test_evicted_file(x.one);
    test_padding(x.one, FOVEA_DTYPE_BF16);
    contexts_free(&x);
    return test_end();
}
