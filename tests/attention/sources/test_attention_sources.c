/* Every pair of sources of keys and values (src/attention/sources) that serves a problem, forced by the choice,
 * has the bits of the scalar tier: over problems of the reference tests in all types and arithmetics, from tensors
 * and from pages of the caller's own, and over caches with every type of keys and values. Blocks, tiles, splits
 * and thresholds of each plan are random, too. AMX tiles are emulated where there are none. The end of the run
 * tells how often each pair was taken; words of two elements, which need instructions that multiply them, are
 * SKIPPED on CPUs that have none. */
#include "attention/plan/plan.h"
#include "cache/cache.h"
#include "cache_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "half_pair.h"
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 480, WORK = 150000, CACHES = 150 };

static case_contexts contexts;
static int64_t taken[FV_KEYS_COUNT][FV_VALUES_COUNT];

static const char *const keys_names[] = {
#define FV_KEYS(name, fallback) #name,
#include "attention/sources/sources.inc"
};
static const char *const values_names[] = {
#define FV_VALUES(name, fallback) #name,
#include "attention/sources/sources.inc"
};

/* A choice of a pair, with anything else. */
static fv_attention_choice choice_of(int k, int v, rng *r) {
    fv_attention_choice choice = choice_random(r);
    choice.k = k + 1;
    choice.v = v + 1;
    return choice;
}

/* A plan that takes a pair where keys have a layout; NULL: the pair does not serve it. */
static fovea_attention_plan *plan_of(const fovea_context *ctx, const fovea_attention_desc *desc,
                                     const fv_attention_choice *choice, fv_kv_layout layout, const char *text) {
    fovea_attention_plan *plan;
    if (!test_check(fv_attention_plan_create_chosen(ctx, desc, choice, &plan) == FOVEA_OK, "plan: %s (%s)",
                    fovea_error_detail(), text))
        return NULL;
    const fv_keys_source *keys = fv_keys_sources[choice->k - 1];
    const fv_values_source *values = fv_values_sources[choice->v - 1];
    test_check(!plan->sources.keys[layout] || plan->sources.keys[layout]->layouts >> layout & 1,
               "keys are taken in a layout that their source does not read (%s)", text);
    if (plan->sources.k[keys->id] && plan->sources.v[values->id] && (keys->layouts >> layout & 1)) {
        test_check(plan->sources.keys[layout] == keys && plan->sources.values[layout] == values,
                   "keys %s and values %s serve, and were not taken (%s)", keys->name, values->name, text);
        taken[keys->id][values->id]++;
        return plan;
    }
    fovea_attention_plan_destroy(plan);
    return NULL;
}

static bool run(const fovea_attention_plan *plan, const fovea_attention_args *args, const char *text) {
    return test_check(fovea_attention_execute(plan, args, NULL, 0) == FOVEA_OK, "execute: %s (%s)",
                      fovea_error_detail(), text);
}

/* A problem whose arguments are complete but for outputs, on the scalar tier and by all pairs. */
static void try_pairs(const attention_case *c, const fovea_attention_desc *desc, const inputs *in, const char *text,
                      rng *r) {
    outputs *want = outputs_make(c, c->layout), *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, want);
    fovea_attention_plan *plan;
    if (!test_check(fovea_attention_plan_create(contexts.scalar, desc, &plan) == FOVEA_OK, "plan: %s (%s)",
                    fovea_error_detail(), text) ||
        !run(plan, &args, text))
        exit(TEST_FAILED);
    fovea_attention_plan_destroy(plan);
    args = case_args(in, got);
    for (int k = 0; k < FV_KEYS_COUNT; k++)
        for (int v = 0; v < FV_VALUES_COUNT; v++) {
            const fv_attention_choice choice = choice_of(k, v, r);
            plan = plan_of(rng_below(r, 4) ? contexts.one : contexts.three, desc, &choice, FV_KV_ROWS, text);
            if (!plan)
                continue;
            outputs_clear(got);
            if (run(plan, &args, text))
                outputs_same(got, want,
                             "keys %s, values %s, blocks of %" PRId64 ", tiles of %" PRId64 ", split %" PRId64
                             ", few_rows %" PRId64 ", copy_rows %" PRId64 ", amx_rows %" PRId64 " (%s)",
                             keys_names[k], values_names[v], choice.block_rows, choice.tile_rows, choice.split_segments,
                             choice.few_rows, choice.copy_rows, choice.amx_rows, text);
            fovea_attention_plan_destroy(plan);
        }
    outputs_free(want);
    outputs_free(got);
}

/* Keys and values in pages of the caller's own, in ascending order; lens: room for lengths. */
static fovea_kv_pages pages_for(inputs *in, fovea_attention_desc *desc, int64_t page_keys, int32_t *table,
                                int64_t *lens) {
    const int64_t each = (desc->kv_len + page_keys - 1) / page_keys, pages = desc->batch * each;
    fovea_kv_pages p;
    fovea_kv_pages_init(&p);
    for (int64_t i = 0; i < pages; i++)
        table[i] = (int32_t)(pages - 1 - i);
    for (int64_t b = 0; b < desc->batch; b++)
        lens[b] = in->args.kv_lens ? in->args.kv_lens[b] : desc->kv_len;
    p.k = pages_of(&in->args.k, page_keys, pages, table, each, page_keys % 2);
    p.v = pages_of(&in->args.v, page_keys, pages, table, each, page_keys % 3 == 0);
    p.table = table;
    p.table_stride = each;
    desc->page_keys = page_keys;
    in->args.k.data = in->args.v.data = NULL;
    in->args.kv_lens = lens;
    return p;
}

static void test_tensors(void) {
    static const int64_t sizes[] = {5, 24, 100, 256, 512};
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        char name[32], text[640], line[512];
        snprintf(name, sizeof name, "sources %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, WORK);
        if (n % 2)
            case_random_scores(&c, &r);
        inputs *in = inputs_make(&c, &r);
        fovea_attention_desc desc = c.desc;
        const bool one_type = rng_below(&r, 3) > 0;
        desc.dtype = half_pair_types[rng_below(&r, HALF_PAIR_TYPES)];
        desc.k_dtype = one_type ? desc.dtype : half_pair_types[rng_below(&r, HALF_PAIR_TYPES)];
        desc.v_dtype = one_type ? desc.dtype : half_pair_types[rng_below(&r, HALF_PAIR_TYPES)];
        desc.out_dtype = FOVEA_DTYPE_F32;
        if (one_type && desc.dtype == FOVEA_DTYPE_BF16)
            desc.arithmetic = (fovea_arithmetic)rng_below(&r, FOVEA_ARITHMETIC_BF16_TILE + 1);
        const int64_t page_keys = n % 3 == 2 ? sizes[rng_below(&r, 5)] : 0;
        int32_t *table = must_alloc(desc.batch * (desc.kv_len + 1), sizeof *table);
        int64_t *lens = must_alloc(desc.batch, sizeof *lens);
        fovea_kv_pages pages;
        if (page_keys > 0) {
            pages = pages_for(in, &desc, page_keys, table, lens);
            void *const floats[] = {pages.k.data, pages.v.data};
            pages.k = half_pair_tensor(&pages.k, desc.k_dtype);
            pages.v = half_pair_tensor(&pages.v, desc.v_dtype);
            in->args.pages = &pages;
            free(floats[0]);
            free(floats[1]);
        } else {
            in->args.k = half_pair_tensor(&in->args.k, desc.k_dtype);
            in->args.v = half_pair_tensor(&in->args.v, desc.v_dtype);
        }
        in->args.q = half_pair_tensor(&in->args.q, desc.dtype);
        snprintf(text, sizeof text, "%s: q %d, k %d, v %d, arithmetic %d, pages of %" PRId64 ": %s", name,
                 (int)desc.dtype, (int)desc.k_dtype, (int)desc.v_dtype, (int)desc.arithmetic, page_keys,
                 case_text(&c, line, sizeof line));
        try_pairs(&c, &desc, in, text, &r);
        half_pairs_free();
        free(table);
        free(lens);
        inputs_free(in);
    }
}

/* Two sequences with a common beginning, which is read once where rows are few. */
static void try_cache(cache_case *c, const int64_t *tokens, int64_t rows, rng *r, const char *text) {
    fovea_kv_cache *cache = cache_make(c);
    shadow *first = cache_add(cache);
    test_check(cache_append(cache, &first, 1, &tokens[0], 3) == FOVEA_OK, "append: %s", fovea_error_detail());
    shadow *const both[] = {first, cache_fork(cache, first)};
    test_check(cache_append(cache, both, 2, tokens + 1, 5000) == FOVEA_OK, "append: %s", fovea_error_detail());
    fovea_attention_desc desc = cache_desc(c, 0, 2, rows, CACHE_LONGEST);
    desc.page_keys = FOVEA_KV_PAGE_KEYS;
    const fv_kv_layout layout = fv_cache_pages(cache)->part[FV_KEYS].word > 0 ? FV_KV_INTERLEAVED : FV_KV_ROWS;
    for (int k = 0; k < FV_KEYS_COUNT; k++)
        for (int v = 0; v < FV_VALUES_COUNT; v++) {
            char what[256];
            const fv_attention_choice choice = choice_of(k, v, r);
            fovea_attention_plan *plan = plan_of(c->ctx, &desc, &choice, layout, text);
            if (!plan)
                continue;
            fovea_attention_plan_destroy(plan);
            c->choice = &choice;
            snprintf(what, sizeof what, "keys %s, values %s, %s", keys_names[k], values_names[v], text);
            cache_check(c, cache, both, 2, rows, what);
        }
    for (int i = 0; i < 2; i++)
        free(both[i]);
    fovea_kv_cache_destroy(cache);
}

static void test_caches(void) {
    static const fovea_dtype stored[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8,
                                         FOVEA_DTYPE_I4};
    static const int64_t lengths[] = {1, 2, 5, 30, 90};
    for (int64_t n = 0, count = test_scaled(CACHES); n < count; n++) {
        char text[96];
        snprintf(text, sizeof text, "sources over caches %" PRId64, n);
        rng r = rng_stream(test_seed(), text);
        cache_case c = cache_case_make(rng_below(&r, 3) ? contexts.one : contexts.three, contexts.scalar);
        c.k_dtype = stored[n % 5];
        c.v_dtype = rng_below(&r, 2) ? c.k_dtype : stored[rng_below(&r, 5)];
        c.q_dtype = n % 5 < 3 && rng_below(&r, 2) ? c.k_dtype : half_pair_types[rng_below(&r, HALF_PAIR_TYPES)];
        if (c.q_dtype == FOVEA_DTYPE_BF16 && c.k_dtype == c.q_dtype && c.v_dtype == c.q_dtype)
            c.arithmetic = (fovea_arithmetic)rng_below(&r, FOVEA_ARITHMETIC_BF16_TILE + 1);
        c.features = (unsigned[]){0, CACHE_SOFTCAP, CACHE_SINKS | CACHE_ALIBI, CACHE_BIAS, CACHE_T5}[rng_below(&r, 5)];
        c.windows[1] = rng_below(&r, 2) ? 200 : -1;
        const int64_t rows = lengths[rng_below(&r, 5)];
        const int64_t tokens[] = {rng_between(&r, 1, 600), rows + rng_below(&r, 200), rows + rng_below(&r, 200)};
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, ": q %d, k %d, v %d, arithmetic %d, features %u", (int)c.q_dtype,
                 (int)c.k_dtype, (int)c.v_dtype, (int)c.arithmetic, c.features);
        try_cache(&c, tokens, rows, &r, text);
    }
}

static void missing(const char *side, const char *name) {
    if (strcmp(name, "words") == 0)
        test_skip("%s %s: no plan of this CPU takes them", side, name);
    else
        test_check(test_scaled(100) < 100, "%s %s were never taken", side, name);
}

static void tell(void) {
    int64_t of_keys[FV_KEYS_COUNT] = {0}, of_values[FV_VALUES_COUNT] = {0};
    for (int k = 0; k < FV_KEYS_COUNT; k++)
        for (int v = 0; v < FV_VALUES_COUNT; v++) {
            of_keys[k] += taken[k][v];
            of_values[v] += taken[k][v];
            if (taken[k][v] > 0)
                printf("keys %s, values %s: %" PRId64 " times\n", keys_names[k], values_names[v], taken[k][v]);
        }
    for (int k = 0; k < FV_KEYS_COUNT; k++)
        if (of_keys[k] == 0)
            missing("keys", keys_names[k]);
    for (int v = 0; v < FV_VALUES_COUNT; v++)
        if (of_values[v] == 0)
            missing("values", values_names[v]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "attention_sources", NULL);
    contexts = contexts_make();
    contexts.one->cpu.emulates_tiles = true;
    test_tensors();
    test_caches();
    contexts_free(&contexts);
    tell();
    return test_end();
}
