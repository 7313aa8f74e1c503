/* Keys and values kept as int8 (fovea/cache.h): integers and scales by the header's rule, for all types that are
 * appended and in every mode of the caller's; errors of scores and outputs against float64, within what the rule
 * leaves; and what takes no int8. That all tiers, chunks and threads give the same bits
 * is in test_cache.c, and that exact numbers give those of float32 in test_paged_attention.c. */
#include "cache_holder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- rule -- */

/* Rows of every size, some of zeros, some of one large number, some with what is no number. */
static void make_row(rng *r, int64_t n, int64_t kind, float *row) {
    const int size = (int)rng_between(r, -150, 126);
    for (int64_t i = 0; i < n; i++)
        row[i] = ldexpf(rng_uniform(r, -1.0f, 1.0f), kind % 4 == 3 ? size - (int)rng_below(r, 12) : size);
    for (int64_t i = 0; i < n && kind % 7 == 0; i++) /* ties */
        row[i] = (float)(i == 0 ? 254 : rng_between(r, -254, 254));
    for (int64_t i = 0; i < n && kind == 5; i++)
        row[i] = i % 2 ? -0.0f : 0.0f;
    if (kind == 8 || kind == 9)
        row[rng_below(r, n)] = kind == 8 ? -INFINITY : NAN;
}

/* By the words of the header. */
static float rule(const float *row, int64_t n, int8_t *to) {
    float most = 0.0f;
    bool numbers = true;
    for (int64_t i = 0; i < n; i++) {
        numbers = numbers && isfinite(row[i]);
        most = fmaxf(most, fabsf(row[i]));
    }
    const bool none = !numbers || most < 0x1p-119f;
    const float factor = none ? 0.0f : 127.0f / most;
    for (int64_t i = 0; i < n; i++) {
        const float product = none ? 0.0f : row[i] * factor;
        to[i] = (int8_t)nearbyint((double)product);
    }
    return !numbers ? NAN : none ? 0.0f : most / 127.0f;
}

static void check_rows(const int8_t *got, const float *scales, const float *rows, int64_t n, int64_t tokens,
                       const char *what) {
    int8_t *want = must_alloc(n, 1);
    for (int64_t t = 0; t < tokens; t++) {
        float scale;
        memcpy(&scale, scales + t, sizeof scale);
        const float due = rule(rows + t * n, n, want);
        test_check((isnan(due) ? isnan(scale) : memcmp(&due, &scale, sizeof due) == 0) &&
                       memcmp(got + t * n, want, (size_t)n) == 0,
                   "%s of %d channels, row %d: scale %a instead of %a, or integers", what, (int)n, (int)t,
                   (double)scale, (double)due);
    }
    free(want);
}

static void check_rule(const fovea_context *ctx, int64_t dim, int64_t values, fovea_dtype dtype, int mode, rng *r) {
    enum { TOKENS = 24 };
    const holder x = hold(ctx, dim, values, FOVEA_DTYPE_I8, FOVEA_DTYPE_I8);
    const int64_t widths[] = {dim, values};
    float *floats[2];
    for (int side = 0; side < 2; side++) {
        floats[side] = must_alloc(TOKENS * widths[side], sizeof(float));
        for (int64_t t = 0; t < TOKENS; t++)
            make_row(r, widths[side], t, floats[side] + t * widths[side]);
    }
    size_t size;
    char *saved = save_rows(&x, floats, dtype, TOKENS, mode, &size);
    const char *v_scales = saved + size - sizeof(uint64_t) - TOKENS * sizeof(float),
               *k_scales = v_scales - TOKENS * sizeof(float), *v = k_scales - TOKENS * values, *k = v - TOKENS * dim;
    float scales[2][TOKENS];
    memcpy(scales[0], k_scales, sizeof scales[0]);
    memcpy(scales[1], v_scales, sizeof scales[1]);
    check_rows((const int8_t *)k, scales[0], floats[0], dim, TOKENS, "keys");
    check_rows((const int8_t *)v, scales[1], floats[1], values, TOKENS, "values");
    free(floats[0]);
    free(floats[1]);
    free(saved);
    fovea_kv_cache_destroy(x.cache);
}

static void test_rule(const fovea_context *ctx) {
    static const int64_t sizes[] = {1, 3, 16, 64, 129, 1024};
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    rng r = rng_stream(test_seed(), "rule");
    for (int i = 0; i < 6; i++)
        for (int type = 0; type < 3; type++)
            for (int mode = 0; mode < 4; mode++)
                check_rule(ctx, sizes[i], 2 * sizes[5 - i] + 1, types[type], mode, &r);
}

/* -------------------------------------------------------------------------------------------------------- errors -- */

enum { DIM = 64, VALUES = 48, KEYS = 400, HEADS = 3, ROWS = 20 };

typedef struct problem {
    float q[HEADS * ROWS * DIM], k[KEYS * DIM], v[KEYS * VALUES];
    float scores[HEADS * ROWS * KEYS], out[HEADS * ROWS * VALUES];
} problem;

static problem *problem_make(rng *r, bool outliers) {
    problem *p = must_alloc(1, sizeof *p);
    for (int64_t i = 0; i < HEADS * ROWS * DIM; i++)
        p->q[i] = rng_normal(r) * (outliers && i % 13 == 0 ? 5.0f : 1.0f);
    for (int64_t i = 0; i < KEYS * DIM; i++)
        p->k[i] = rng_normal(r) * (outliers && i % DIM == 7 ? 9.0f : 1.0f); /* in one channel */
    for (int64_t i = 0; i < KEYS * VALUES; i++)
        p->v[i] = rng_normal(r);
    return p;
}

/* From a cache, all queries seeing all keys. */
static void attend(const fovea_context *ctx, problem *p, fovea_dtype k_dtype, fovea_dtype v_dtype) {
    const holder x = hold(ctx, DIM, VALUES, k_dtype, v_dtype);
    append(&x, p->k, p->v, FOVEA_DTYPE_F32, KEYS);
    fovea_attention_desc d;
    fovea_attention_args args;
    fovea_attention_scores view;
    fovea_attention_desc_init(&d);
    d.q_heads = HEADS;
    d.kv_heads = 1;
    d.q_len = ROWS;
    d.kv_len = KEYS;
    d.head_dim = DIM;
    d.value_dim = VALUES;
    d.k_dtype = k_dtype;
    d.v_dtype = v_dtype;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_attention_args_init(&args);
    fovea_attention_scores_init(&view);
    view.out = fovea_tensor_bhtd(p->scores, FOVEA_DTYPE_F32, 1, HEADS, ROWS, KEYS);
    args.q = fovea_tensor_bhtd(p->q, FOVEA_DTYPE_F32, 1, HEADS, ROWS, DIM);
    args.out = fovea_tensor_bhtd(p->out, FOVEA_DTYPE_F32, 1, HEADS, ROWS, VALUES);
    args.scores = &view;
    args.cache = x.cache;
    args.cache_sequences = &x.sequence;
    require(attention_once(ctx, &d, &args), "attention");
    fovea_kv_cache_destroy(x.cache);
}

static double largest(const float *row, int64_t n) {
    double most = 0.0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)row[i]));
    return most;
}

/* How far an integer is from the number at most, in units: half, and the roundings of the factor and the product. */
static double half(double most) { return 0.5 + most * 0x1p-22; }

/* |got - s| of a row and a key: what rounding either operand moves the sum by, and float32's last roundings; the scale
 * is 1/8. */
static double score_bound(const float *q, const float *k, double *exact) {
    const double eq = half(16319) * largest(q, DIM) / 16319, ek = half(127) * largest(k, DIM) / 127;
    double bound = 0.0;
    *exact = 0.0;
    for (int64_t c = 0; c < DIM; c++) {
        const double a = (double)q[c], b = (double)k[c];
        *exact += a * b / 8.0;
        bound += (eq * (fabs(b) + ek) + fabs(a) * ek) / 8.0;
    }
    return bound + (fabs(*exact) + bound) * 0x1p-21;
}

/* Sums of squares: of outputs, and of what they are off by. */
typedef struct squares {
    double size, off;
} squares;

/* Outputs of a row by float64, and of weights that are off by factors of e^-d to e^d the most that this moves them. */
static void check_output(const double *s, double d, const float *v, bool int8_values, const float *got,
                         const char *what, squares *all_rows) {
    double most = -INFINITY, sum = 0.0, step = 0.0;
    for (int64_t j = 0; j < KEYS; j++) {
        most = fmax(most, s[j]);
        step = fmax(step, largest(v + j * VALUES, VALUES) / 127);
    }
    for (int64_t j = 0; j < KEYS; j++)
        sum += exp(s[j] - most);
    for (int64_t c = 0; c < VALUES; c++) {
        double due = 0.0, all = 0.0;
        for (int64_t j = 0; j < KEYS; j++) {
            const double w = exp(s[j] - most) / sum;
            due += w * (double)v[j * VALUES + c];
            all += w * fabs((double)v[j * VALUES + c]);
        }
        const double values = int8_values ? half(127) * step : 0.0,
                     bound = (exp(2.0 * d) - 1.0) * (all + values) + values + (all + values) * 0x1p-15;
        all_rows->size += due * due;
        all_rows->off += ((double)got[c] - due) * ((double)got[c] - due);
        test_check(fabs((double)got[c] - due) <= bound, "%s: output %g instead of %g, off by %g of %g", what,
                   (double)got[c], due, fabs((double)got[c] - due), bound);
    }
}

/* Random normal numbers; outliers: queries and a channel of keys have large ones, so that few keys have all of the
 * weight. */
static void test_errors(const fovea_context *ctx, bool outliers) {
    static const struct {
        const char *name;
        fovea_dtype k, v;
    } types[] = {{"int8", FOVEA_DTYPE_I8, FOVEA_DTYPE_I8},
                 {"int8 keys", FOVEA_DTYPE_I8, FOVEA_DTYPE_F32},
                 {"int8 values", FOVEA_DTYPE_F32, FOVEA_DTYPE_I8},
                 {"bfloat16, for comparison", FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16}};
    rng r = rng_stream(test_seed(), "errors");
    problem *p = problem_make(&r, outliers);
    double *s = must_alloc(KEYS, sizeof *s);
    for (int i = 0; i < 4; i++) {
        const bool keys = types[i].k == FOVEA_DTYPE_I8, values = types[i].v == FOVEA_DTYPE_I8;
        double share = 0.0, rest = 0.0;
        squares all = {0.0, 0.0};
        attend(ctx, p, types[i].k, types[i].v);
        for (int64_t row = 0; row < HEADS * ROWS; row++) {
            double d = i == 3 ? INFINITY : 0x1p-15;
            for (int64_t j = 0; j < KEYS; j++) {
                const double bound = score_bound(p->q + row * DIM, p->k + j * DIM, &s[j]),
                             off = fabs((double)p->scores[row * KEYS + j] - s[j]);
                *(keys ? &share : &rest) = fmax(keys ? share : rest, off / bound);
                d = keys ? fmax(d, bound) : d;
            }
            check_output(s, d, p->v, values, p->out + row * VALUES, types[i].name, &all);
        }
        printf("%s%s: root mean square error of outputs %.2e, relative to them\n", types[i].name,
               outliers ? ", outliers" : "", sqrt(all.off / all.size));
        test_check(!keys || (share > 0.01 && share <= 1.0), "%s: errors of scores are %g of their bound", types[i].name,
                   share);
        test_check(keys || i == 3 || rest < 0x1p-6, "%s: scores of float32 are off by %g", types[i].name, rest);
    }
    free(s);
    free(p);
}

/* ------------------------------------------------------------------------------------------------------- refused -- */

static void test_sizes(const fovea_context *ctx) {
    const holder x = hold(ctx, 40, 24, FOVEA_DTYPE_I8, FOVEA_DTYPE_BF16);
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    require(fovea_kv_cache_stats(x.cache, &stats), "info");
    test_check(stats.token_bytes == 40 + 24 * 2 + 4 && stats.page_bytes == 256 * (40 + 24 * 2 + 4), "%d and %d bytes",
               (int)stats.token_bytes, (int)stats.page_bytes);
    fovea_kv_cache_destroy(x.cache);
}

static void test_refused(const fovea_context *ctx) {
    fovea_kv_cache_desc cache_desc;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&cache_desc);
    cache_desc.kv_heads = cache_desc.value_dim = cache_desc.max_pages = 1;
    cache_desc.head_dim = 1025;
    cache_desc.k_dtype = FOVEA_DTYPE_I8;
    check_status("channels", fovea_kv_cache_create(ctx, &cache_desc, &cache), FOVEA_ERROR_SHAPE, "1025|1024");

    fovea_attention_desc d;
    fovea_attention_plan *plan;
    for (int i = 0; i < 8; i++) {
        fovea_attention_desc_init(&d);
        d.q_heads = d.kv_heads = d.q_len = d.kv_len = d.head_dim = d.value_dim = 1;
        d.page_keys = i == 0 ? 0 : i == 1 ? 100 : FOVEA_KV_PAGE_KEYS;
        d.v_dtype = i < 1 ? FOVEA_DTYPE_I8 : 0;
        d.dtype = i == 2 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_F32;
        d.out_dtype = i == 3 ? FOVEA_DTYPE_I8 : 0;
        d.k_dtype = i == 1 || i >= 4 ? FOVEA_DTYPE_I8 : 0;
        d.head_dim = i == 4 ? 1025 : 1;
        d.arithmetic = i == 5 ? FOVEA_ARITHMETIC_BF16 : FOVEA_ARITHMETIC_EXACT;
        static const struct {
            fovea_status due;
            const char *words;
        } due[] = {{FOVEA_ERROR_DTYPE, "v_dtype is FOVEA_DTYPE_I8|page_keys is 0|256"},
                   {FOVEA_ERROR_SHAPE, "page_keys is 100|multiple of 32"},
                   {FOVEA_ERROR_DTYPE, "dtype is FOVEA_DTYPE_I8|attention takes"},
                   {FOVEA_ERROR_DTYPE, "out_dtype is FOVEA_DTYPE_I8"},
                   {FOVEA_ERROR_SHAPE, "1025|1024"},
                   {FOVEA_ERROR_UNSUPPORTED, "dtype is FOVEA_DTYPE_F32"},
                   {FOVEA_OK, NULL},
                   {FOVEA_OK, NULL}};
        check_status("plan", fovea_attention_plan_create(ctx, &d, &plan), due[i].due, due[i].words);
        if (i == 6) { /* pages of others */
            fovea_attention_args args;
            fovea_kv_pages pages;
            const int64_t lens[1] = {1};
            const int32_t table[1] = {0};
            float q[1] = {1.0f}, out[1];
            int8_t k[FOVEA_KV_PAGE_KEYS] = {0};
            fovea_kv_pages_init(&pages);
            fovea_attention_args_init(&args);
            pages.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_I8, 1, 1, FOVEA_KV_PAGE_KEYS, 1);
            pages.v = pages.k;
            pages.table = table;
            pages.table_stride = 1;
            args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, 1, 1);
            args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, 1);
            args.pages = &pages;
            args.kv_lens = lens;
            check_status("external pages", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_STRIDE,
                         "k of the pages|must be 4");
        }
        if (i == 7) {
            char text[2048];
            fovea_attention_plan_describe(plan, text, sizeof text);
            test_check(strstr(text, "k int8") && strstr(text, "multiply_few_i16_i8x4"), "described as %s", text);
        }
        fovea_attention_plan_destroy(plan);
    }
    float x[1] = {0.0f};
    check_status("converted", fovea_convert(1, x, FOVEA_DTYPE_F32, x, FOVEA_DTYPE_I8), FOVEA_ERROR_DTYPE,
                 "to_dtype is FOVEA_DTYPE_I8");
    const holder floats = hold(ctx, 1, 1, FOVEA_DTYPE_F32, FOVEA_DTYPE_I8);
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &floats.sequence;
    a.k = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    a.v = fovea_tensor_bhtd(x, FOVEA_DTYPE_I8, 1, 1, 1, 1);
    check_status("appended", fovea_kv_cache_append(floats.cache, &a), FOVEA_ERROR_DTYPE, "v is FOVEA_DTYPE_I8");
    fovea_kv_cache_destroy(floats.cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_int8", NULL);
    const case_contexts x = contexts_make();
    test_rule(x.one);
    test_errors(x.one, false);
    test_errors(x.one, true);
    test_sizes(x.one);
    test_refused(x.one);
    contexts_free(&x);
    return test_end();
}
