/* Attention over pages that are not a cache's (args.pages): page tables and lists of pages of any size, of float32 and
 * of 16 bits, keys before or behind heads, by bits against contiguous memory on the scalar tier; and mixed batches from
 * a cache, where some sequences are in prefill and others decode. Packed queries, and outputs besides out:
 * test_paged_outputs.c. */
#include "attention/plan/schedule.h"
#include "cache_case.h"
#include "pages.h"
#include "thread_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_pool(const fovea_context *ctx, const attention_case *c, const inputs *in, const outputs *want,
                       int64_t page_keys, bool lists, rng *r) {
    const int64_t batch = c->desc.batch, keys = c->desc.kv_len;
    const int64_t each = (keys + page_keys - 1) / page_keys, pages = batch * each + 3;
    int32_t *table = must_alloc(batch * each + 1, sizeof *table), *starts = must_alloc(batch + 1, sizeof *starts);
    int64_t *lens = must_alloc(batch + 1, sizeof *lens);
    for (int64_t i = 0; i < batch * each; i++) { /* in any order, with gaps */
        table[i] = (int32_t)(i + rng_below(r, 4));
        for (int64_t j = 0; j < i; j++)
            if (table[j] == table[i]) {
                table[i] = (table[i] + 1) % (int32_t)pages;
                j = -1;
            }
    }
    for (int64_t b = 0; b < batch; b++) {
        starts[b] = (int32_t)(b * each);
        lens[b] = in->args.kv_lens ? in->args.kv_lens[b] : keys;
    }
    attention_case paged = *c;
    char text[512];
    paged.desc.page_keys = page_keys;
    fovea_attention_plan *plan;
    if (!test_check(fovea_attention_plan_create(ctx, &paged.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail()))
        return;
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    fovea_kv_pages p;
    fovea_kv_pages_init(&p);
    p.k = pages_of(&args.k, page_keys, pages, table, each, page_keys % 2);
    p.v = pages_of(&args.v, page_keys, pages, table, each, page_keys % 3 == 0);
    p.table = table;
    p.table_stride = lists ? 0 : each;
    p.starts = lists ? starts : NULL;
    args.k.data = args.v.data = NULL;
    args.kv_lens = lens;
    args.pages = &p;
    const fovea_status status = fovea_attention_execute(plan, &args, NULL, 0);
    test_check(status == FOVEA_OK, "pages: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text));
    outputs_same(got, want, "pool of pages of %d keys%s (%s)", (int)page_keys, lists ? ", lists" : "",
                 case_text(c, text, sizeof text));
    free(p.k.data);
    free(p.v.data);
    free(table);
    free(starts);
    free(lens);
    outputs_free(got);
    fovea_attention_plan_destroy(plan);
}

static void test_pools(const case_contexts *x) {
    static const int64_t sizes[] = {1, 7, 16, 32, 100, 256, 512, 5000};
    int64_t tried = 0;
    for (int64_t i = 0; i < test_scaled(80); i++) {
        char name[32];
        snprintf(name, sizeof name, "pool %d", (int)i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 200000);
        if (i % 4 > 1)
            case_random_scores(&c, &r);
        inputs *in = inputs_make(&c, &r);
        if (!c.desc.packed && !in->args.kv_starts) {
            outputs *want = outputs_make(&c, c.layout);
            if (case_run(x->scalar, NULL, &c, in, want)) {
                check_pool(i % 2 ? x->one : x->three, &c, in, want, sizes[i % 8], false, &r);
                check_pool(x->one, &c, in, want, sizes[rng_below(&r, 8)], true, &r);
                tried++;
            }
            outputs_free(want);
        }
        inputs_free(in);
    }
    test_check(test_scaled(100) < 100 || tried > 5, "only %d problems were of such a kind", (int)tried);
}

/* A sequence's keys or values in pages of 16 bits, in descending order. */
static fovea_tensor half_pool(const cache_case *c, const shadow *s, bool values, int64_t page_keys, int64_t pages) {
    const int64_t channels = values ? CACHE_VALUES : CACHE_DIM, page = CACHE_KV_HEADS * page_keys * channels;
    uint16_t *rows = cache_rows(c, s, 0, values), *data = must_alloc(pages * page, sizeof *data);
    memset(data, 0xff, (size_t)(pages * page) * sizeof *data); /* NaN where no key is */
    for (int64_t h = 0; h < CACHE_KV_HEADS; h++)
        for (int64_t key = 0; key < s->length; key++)
            memcpy(data + (pages - 1 - key / page_keys) * page + (h * page_keys + key % page_keys) * channels,
                   rows + (h * s->length + key) * channels, (size_t)channels * sizeof *data);
    free(rows);
    return fovea_tensor_bhtd(data, values ? c->v_dtype : c->k_dtype, pages, CACHE_KV_HEADS, page_keys, channels);
}

/* Types of 16 bits and named arithmetics, whatever the pages: blocks and pairs of keys end with a page. Two sequences
 * have the same pages, which are read once where they are whole segments and rows are few. */
static void test_half_pools(const case_contexts *x) {
    static const int64_t sizes[] = {1, 16, 31, 100, 256, 512};
    shadow *s = must_alloc(1, sizeof *s);
    cache_case c = cache_case_make(x->one, x->scalar);
    c.q_dtype = FOVEA_DTYPE_BF16;
    s->length = 0;
    for (int32_t i = 0; i < 530; i++) {
        s->token[i] = 77 + i;
        s->attended[s->length++] = 1;
    }
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < 6; i++)
            for (int64_t rows = 1; rows <= 33; rows += 32) {
                const int64_t page_keys = sizes[i], pages = (s->length + page_keys - 1) / page_keys;
                c.k_dtype = c.v_dtype = kind == 3 ? FOVEA_DTYPE_F16 : FOVEA_DTYPE_BF16;
                c.arithmetic = kind == 3 ? FOVEA_ARITHMETIC_EXACT : (fovea_arithmetic)kind;
                const int64_t q_floats = CACHE_Q_HEADS * rows * CACHE_DIM, floats = CACHE_Q_HEADS * rows * CACHE_VALUES;
                const int64_t lens[2] = {s->length, s->length};
                float *q = must_alloc(2 * q_floats, sizeof *q), *out = must_alloc(2 * floats, sizeof *out),
                      *want = must_alloc(floats, sizeof *want);
                int32_t *table = must_alloc(pages, sizeof *table), starts[2] = {0};
                for (int64_t p = 0; p < pages; p++)
                    table[p] = (int32_t)(pages - 1 - p);
                fovea_attention_desc d = cache_desc(&c, 0, 2, rows, s->length);
                fovea_attention_args args;
                fovea_attention_stats stats;
                fovea_attention_plan *plan;
                fovea_kv_pages p;
                d.page_keys = page_keys;
                cache_queries(s, 0, rows, q);
                memcpy(q + q_floats, q, (size_t)q_floats * sizeof *q);
                cache_narrow(&c, q, 2 * q_floats);
                fovea_attention_stats_init(&stats);
                fovea_kv_pages_init(&p);
                p.k = half_pool(&c, s, false, page_keys, pages);
                p.v = half_pool(&c, s, true, page_keys, pages);
                p.table = table;
                p.starts = starts;
                fovea_attention_args_init(&args);
                args.q = fovea_tensor_bhtd(q, c.q_dtype, 2, CACHE_Q_HEADS, rows, CACHE_DIM);
                args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 2, CACHE_Q_HEADS, rows, CACHE_VALUES);
                args.kv_lens = lens;
                args.pages = &p;
                args.stats = &stats;
                fovea_status status = fovea_attention_plan_create(c.ctx, &d, &plan);
                if (status == FOVEA_OK)
                    status = fovea_attention_execute(plan, &args, NULL, 0);
                test_check(status == FOVEA_OK, "pages of 16 bits: %s", fovea_error_detail());
                cache_want(&c, s, 0, rows, want);
                for (int b = 0; b < 2; b++)
                    test_same(out + b * floats, want, floats, "pages of %d keys, type %d, arithmetic %d, %d rows",
                              (int)page_keys, (int)c.k_dtype, (int)c.arithmetic, (int)rows);
                test_check(stats.shared_prefixes == (rows == 1 && page_keys % 256 == 0),
                           "pages of %d keys, %d rows: %d were read once", (int)page_keys, (int)rows,
                           (int)stats.shared_prefixes);
                fovea_attention_plan_destroy(plan);
                free(q);
                free(out);
                free(want);
                free(table);
                free(p.k.data);
                free(p.v.data);
            }
    free(s);
}

/* Packed queries: sequence i has rows[i] of them, the last of its tokens. Returns how many blocks were split over
 * keys. */
static int64_t check_mixed(const cache_case *c, fovea_kv_cache *cache, shadow *const *s, int64_t count,
                           const int64_t *rows) {
    int64_t ends[9] = {0}, numbers[8], longest = 0;
    for (int64_t i = 0; i < count; i++) {
        ends[i + 1] = ends[i] + rows[i];
        numbers[i] = s[i]->number;
        longest = rows[i] > longest ? rows[i] : longest;
    }
    const int64_t all = ends[count];
    float *q = must_alloc(all * CACHE_Q_HEADS * CACHE_DIM, sizeof *q),
          *out = must_alloc(all * CACHE_Q_HEADS * CACHE_VALUES, sizeof *out),
          *own = must_alloc(longest * CACHE_Q_HEADS * CACHE_DIM, sizeof *own),
          *want = must_alloc(longest * CACHE_Q_HEADS * CACHE_VALUES, sizeof *want);
    fovea_attention_desc d;
    fovea_attention_args args;
    fovea_attention_stats stats;
    for (int64_t i = 0; i < count; i++) {
        cache_queries(s[i], 1, rows[i], own);
        for (int64_t h = 0; h < CACHE_Q_HEADS; h++)
            memcpy(q + (h * all + ends[i]) * CACHE_DIM, own + h * rows[i] * CACHE_DIM,
                   (size_t)(rows[i] * CACHE_DIM) * sizeof *q);
    }
    fovea_attention_desc_init(&d);
    d.batch = count;
    d.q_heads = CACHE_Q_HEADS;
    d.kv_heads = CACHE_KV_HEADS;
    d.q_len = longest;
    d.kv_len = CACHE_LONGEST;
    d.head_dim = CACHE_DIM;
    d.value_dim = CACHE_VALUES;
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.packed = 1;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, all, CACHE_DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, CACHE_Q_HEADS, all, CACHE_VALUES);
    args.q_cu_seqlens = ends;
    args.cache = cache;
    args.cache_layer = 1;
    args.cache_sequences = numbers;
    args.stats = &stats;
    fovea_attention_stats_init(&stats);
    fovea_status status = attention_once(c->ctx, &d, &args);
    test_check(status == FOVEA_OK, "mixed: %s", fovea_error_detail());
    for (int64_t i = 0; i < count; i++) {
        cache_want(c, s[i], 1, rows[i], want);
        for (int64_t h = 0; h < CACHE_Q_HEADS; h++)
            test_same(out + (h * all + ends[i]) * CACHE_VALUES, want + h * rows[i] * CACHE_VALUES,
                      rows[i] * CACHE_VALUES, "mixed batch: sequence %d, head %d", (int)i, (int)h);
    }
    free(q);
    free(out);
    free(own);
    free(want);
    return stats.split_blocks;
}

static void test_mixed(const case_contexts *x) {
    enum { COUNT = 5 };
    static const int64_t lengths[COUNT] = {600, 1, 300, 257, 900}, rows[COUNT] = {600, 1, 1, 7, 1};
    cache_case c = cache_case_make(x->one, x->scalar);
    fovea_kv_cache *cache = cache_make(&c);
    shadow *s[COUNT];
    for (int i = 0; i < COUNT; i++) {
        s[i] = must_alloc(1, sizeof *s[i]);
        s[i]->length = 0;
        test_check(fovea_kv_cache_add(cache, &s[i]->number) == FOVEA_OK, "%s", fovea_error_detail());
    }
    test_check(cache_append(cache, s, COUNT, lengths, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    test_check(check_mixed(&c, cache, s, COUNT, rows) == 0, "one thread, and a block was split");
    test_check(fovea_kv_cache_evict(cache, s[4]->number, 100, 700) == FOVEA_OK, "evict: %s", fovea_error_detail());
    test_check(fovea_kv_cache_evict(cache, s[2]->number, 0, 3) == FOVEA_OK, "evict: %s", fovea_error_detail());
    memset(s[4]->attended + 100, 0, 600);
    memset(s[2]->attended, 0, 3);
    check_mixed(&c, cache, s, COUNT, rows);
    for (int threads = 2; threads <= 5; threads++) { /* decoding sequences alone: the long one is split */
        struct thread_pool *p = thread_pool_create(threads);
        fovea_context *ctx = context_of(FOVEA_ISA_BEST, threads, p);
        c.ctx = ctx;
        check_mixed(&c, cache, s, COUNT, rows);
        const int64_t split = check_mixed(&c, cache, s + 1, COUNT - 1, rows + 1);
        test_check(split > 0, "%d threads: no block was split", threads);
        fovea_context_destroy(ctx);
        thread_pool_destroy(p);
    }
    for (int i = 0; i < COUNT; i++)
        free(s[i]);
    fovea_kv_cache_destroy(cache);
}

/* Prefill and decoding in one batch: those of the most work come first, so that nobody is left with the longest, and a
 * single token does not take the place of a prompt. */
static void test_schedule(const fovea_context *ctx) {
    enum { COUNT = 5, PROMPT = 2 };
    static const int64_t q_ends[COUNT + 1] = {0, 1, 2, 602, 609, 610},
                                        kv_ends[COUNT + 1] = {0, 1, 258, 858, 1758, 2058};
    attention_case c = case_plain(COUNT, CACHE_Q_HEADS, CACHE_KV_HEADS, 600, 900, CACHE_DIM, CACHE_VALUES);
    fovea_attention_plan *plan;
    fovea_attention_args args;
    c.desc.packed = 1;
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    if (!test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail()))
        return;
    fovea_attention_args_init(&args);
    args.q_cu_seqlens = q_ends;
    args.kv_cu_seqlens = kv_ends;
    void *table = must_alloc(fv_schedule_bytes(plan), 1);
    const fv_schedule schedule = fv_schedule_make(plan, &args, NULL, table);
    int64_t seen = 0;
    test_check(schedule.count == COUNT && fv_schedule_block(&schedule, 0).batch == PROMPT,
               "the first of %d sequences is of sequence %d", (int)schedule.count,
               (int)fv_schedule_block(&schedule, 0).batch);
    for (int64_t i = 0; i < schedule.count; i++) {
        seen |= (int64_t)1 << schedule.sequences[i].first;
        test_check(i == 0 || 2 * schedule.sequences[i - 1].block_work + 1 >= schedule.sequences[i].block_work,
                   "place %d has more work than the one before", (int)i);
    }
    test_check(seen == (1 << COUNT) - 1, "a sequence has no place");
    free(table);
    fovea_attention_plan_destroy(plan);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_external", NULL);
    const case_contexts x = contexts_make();
    test_pools(&x);
    test_half_pools(&x);
    test_mixed(&x);
    test_schedule(x.three);
    test_schedule(x.one);
    contexts_free(&x);
    return test_end();
}
