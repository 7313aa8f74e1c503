/* Scores of bfloat16 and float16 in pairs: where products of pairs have the bits of float32 they are taken, and nowhere
 * else, with keys in tensors and in a cache. */
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <string.h>

static case_contexts contexts;

/* Row i sees key i alone, so its lse is its score. Queries are (1 + 2^-7, 1) 2^eq, keys (1 + 2^-7, -1 - 2^-6) 2^ek: the
 * score is 2^(eq + ek - 14), a subnormal number from eq + ek = -113 on. at_key: a number that key 3 has as its last
 * channel. */
typedef struct guard_case {
    int eq, ek;
    float at_key;
    bool paired; /* do the products of pairs have the bits of float32 for all that is there? */
} guard_case;

static const guard_case guard_cases[] = {
    {-56, -56, 0.0f, true},   {-56, -57, 0.0f, false},   {-112, 0, 0.0f, true},      {-113, 0, 0.0f, false},
    {0, -112, 0.0f, true},    {0, -113, 0.0f, false},    {12, -124, 0.0f, true},     {12, -125, 0.0f, false},
    {-126, 20, 0.0f, true},   {-127, 20, 0.0f, false},   {0, 0, 0x1p-126f, false},   {0, 0, 0x1p-112f, true},
    {0, 0, 0x1p-113f, false}, {100, 0, 0x1p-126f, true}, {100, 0, 0x1p-127f, false}, {100, 0, 0x1p-133f, false},
    {0, 0, INFINITY, false},  {0, 0, NAN, false},        {0, 0, 0x1.fep127f, true},  {120, 120, 0.0f, true},
};

/* For bfloat16 queries that a scale multiplies: they and their products have to be normal numbers, and the scale
 * positive. 2^128 is infinite. */
static const struct {
    guard_case c;
    double scale;
} scaled_cases[] = {
    {{-53, -56, 0.0f, true}, 0.125},   {{-53, -57, 0.0f, false}, 0.125},  {{-123, 20, 0.0f, true}, 0.125},
    {{-124, 20, 0.0f, false}, 0.125},  {{-60, -56, 0.0f, true}, 16.0},    {{-127, 20, 0.0f, false}, 0x1p10},
    {{124, 0, 0.0f, true}, 8.0},       {{125, 0, 0.0f, false}, 8.0},      {{128, 0, 0.0f, false}, 0.125},
    {{60, 60, 0.0f, true}, 0x1p-126},  {{60, 60, 0.0f, false}, 0x1p-127}, {{0, 0, 0x1p-109f, true}, 0.125},
    {{0, 0, 0x1p-110f, false}, 0.125}, {{0, 0, 0.0f, false}, -0.5},       {{0, 0, 0.0f, false}, 0.0},
    {{0, 0, 0.0f, true}, 0.3},
};

/* For float16 there is no guard, but the scale has to be positive and near to 1. */
static const struct {
    guard_case c;
    double scale;
} float16_cases[] = {
    {{0, 0, 0.0f, true}, 1.0},         {{-17, -17, 0.0f, true}, 1.0},      {{14, 14, 0.0f, true}, 0.125},
    {{-17, -17, 0.0f, true}, 0x1p-24}, {{-17, -17, 0.0f, false}, 0x1p-25}, {{14, 14, 0.0f, true}, 0x1.8p24},
    {{14, 14, 0.0f, false}, 0x1p25},   {{0, 0, 0.0f, false}, -0.5},        {{0, 0, INFINITY, true}, 0.5},
    {{0, 0, NAN, true}, 0.5},          {{0, 0, 0x1p-24f, true}, 0.3},      {{0, 0, 0.0f, false}, 0.0},
};

/* Does this CPU multiply pairs on this context? */
static bool multiplies_pairs(const fovea_context *ctx, fovea_dtype type) {
    return ctx->cpu.fast_pairs && fv_multiply_pairs(fv_type_of(type), ctx->target)->isa != FV_ISA_scalar;
}

/* A cache that holds keys of 16 bits, and one channel of values; its sequence. */
static fovea_kv_cache *cache_of(fovea_tensor k, fovea_tensor v, int64_t *sequence) {
    fovea_kv_cache_desc d;
    fovea_kv_append_args a;
    fovea_kv_cache *cache = NULL;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = 1;
    d.head_dim = k.shape[3];
    d.value_dim = v.shape[3];
    d.k_dtype = k.dtype;
    d.max_pages = 8;
    test_check(fovea_kv_cache_create(contexts.one, &d, &cache) == FOVEA_OK &&
                   fovea_kv_cache_add(cache, sequence) == FOVEA_OK,
               "cache: %s", fovea_error_detail());
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = sequence;
    a.k = k;
    a.v = v;
    test_check(fovea_kv_cache_append(cache, &a) == FOVEA_OK, "append: %s", fovea_error_detail());
    return cache;
}

/* By float32 on the scalar tier, by 16 bits, and by these with keys in a cache. */
enum { FLOATS, HALVES, CACHED, WAYS };

static void check_guard(const guard_case *g, int64_t tokens, fovea_dtype type, double scale) {
    enum { MOST = 300, DIM = 3 };
    static float q[MOST * DIM], k[MOST * DIM], v[MOST], lse[WAYS][MOST], out[MOST];
    static uint16_t halves[2][MOST * DIM];
    for (int64_t i = 0; i < tokens; i++) {
        const float row[] = {ldexpf(1.0f + 0x1p-7f, g->eq), ldexpf(1.0f, g->eq), ldexpf(1.0f, g->eq)};
        const float key[] = {ldexpf(1.0f + 0x1p-7f, g->ek), ldexpf(-1.0f - 0x1p-6f, g->ek), i == 3 ? g->at_key : 0.0f};
        memcpy(q + i * DIM, row, sizeof row);
        memcpy(k + i * DIM, key, sizeof key);
        v[i] = 1.0f;
    }
    convert_elements(tokens * DIM, q, FOVEA_DTYPE_F32, halves[0], type);
    convert_elements(tokens * DIM, k, FOVEA_DTYPE_F32, halves[1], type);
    convert_elements(tokens * DIM, halves[0], type, q, FOVEA_DTYPE_F32);
    convert_elements(tokens * DIM, halves[1], type, k, FOVEA_DTYPE_F32);
    for (int way = FLOATS; way < WAYS; way++) {
        const bool half = way != FLOATS;
        int64_t sequence;
        fovea_kv_cache *cache = NULL;
        fovea_attention_desc d = case_plain(1, 1, 1, tokens, tokens, DIM, 1).desc;
        fovea_attention_args args;
        fovea_attention_stats stats;
        fovea_attention_args_init(&args);
        fovea_attention_stats_init(&stats);
        d.has_scale = 1;
        d.scale = scale;
        d.window_left = d.window_right = 0;
        d.dtype = half ? type : FOVEA_DTYPE_F32;
        d.v_dtype = d.out_dtype = FOVEA_DTYPE_F32;
        args.q = fovea_tensor_bhtd(half ? (void *)halves[0] : q, d.dtype, 1, 1, tokens, DIM);
        args.k = fovea_tensor_bhtd(half ? (void *)halves[1] : k, d.dtype, 1, 1, tokens, DIM);
        args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, 1, tokens, 1);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, tokens, 1);
        args.lse = fovea_tensor_bhtd(lse[way], FOVEA_DTYPE_F32, 1, 1, tokens, 1);
        args.stats = &stats;
        if (way == CACHED) {
            cache = cache_of(args.k, args.v, &sequence);
            d.page_keys = FOVEA_KV_PAGE_KEYS;
            args.cache = cache;
            args.cache_sequences = &sequence;
            args.k = args.v = (fovea_tensor){0};
        }
        const bool ran = attention_runs(half ? contexts.one : contexts.scalar, &d, &args);
        fovea_kv_cache_destroy(cache);
        if (!ran)
            return;
        if (half && multiplies_pairs(contexts.one, type))
            test_check((stats.fast_tiles == stats.visited_tiles) == g->paired,
                       "%s%s: 2^%d and 2^%d, %a: %s tiles in pairs", way == CACHED ? "cached " : "",
                       type == FOVEA_DTYPE_F16 ? "float16" : "bfloat16", g->eq, g->ek, (double)g->at_key,
                       g->paired ? "not all" : "all");
        else
            test_check(stats.fast_tiles == 0, "tiles in pairs where there are none");
    }
    for (int way = HALVES; way < WAYS; way++)
        test_check(memcmp(lse[FLOATS], lse[way], (size_t)tokens * sizeof(float)) == 0,
                   "%s%s: 2^%d and 2^%d, %a: another score", way == CACHED ? "cached " : "",
                   type == FOVEA_DTYPE_F16 ? "float16" : "bfloat16", g->eq, g->ek, (double)g->at_key);
}

/* At the edge where a product of pairs would differ, on both sides. */
static void test_guard(void) {
    for (size_t i = 0; i < sizeof guard_cases / sizeof guard_cases[0]; i++) {
        check_guard(&guard_cases[i], 20, FOVEA_DTYPE_BF16, 1.0); /* one tile, but not few rows */
        check_guard(&guard_cases[i], 300, FOVEA_DTYPE_BF16, 1.0);
    }
    for (size_t i = 0; i < sizeof scaled_cases / sizeof scaled_cases[0]; i++) {
        check_guard(&scaled_cases[i].c, 20, FOVEA_DTYPE_BF16, scaled_cases[i].scale);
        check_guard(&scaled_cases[i].c, 300, FOVEA_DTYPE_BF16, scaled_cases[i].scale);
    }
    for (size_t i = 0; i < sizeof float16_cases / sizeof float16_cases[0]; i++) {
        check_guard(&float16_cases[i].c, 20, FOVEA_DTYPE_F16, float16_cases[i].scale);
        check_guard(&float16_cases[i].c, 300, FOVEA_DTYPE_F16, float16_cases[i].scale);
    }
    if (!multiplies_pairs(contexts.one, FOVEA_DTYPE_BF16))
        test_skip("scores in pairs of bfloat16: this CPU or tier has neither a fast VDPBF16PS nor BFMLALB");
    if (!multiplies_pairs(contexts.one, FOVEA_DTYPE_F16))
        test_skip("scores in pairs of float16: this CPU or tier has no FMLAL");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "pairs_guard", NULL);
    contexts = contexts_make();
    test_guard();
    contexts_free(&contexts);
    return test_end();
}
