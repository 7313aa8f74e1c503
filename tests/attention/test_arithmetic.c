/* The named arithmetics of bfloat16: their formulas (kernels.h), written out for plain problems, and by bits against
 * the scalar tier on random ones, on all contexts; bf16_tile also by the kernels over tiles: by the CPU's, or emulated,
 * which is counted. */
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "fp_control.h"
#include "half_pair.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 160, WORK = 200000 };

static case_contexts contexts;
static fovea_context *over_tiles; /* one thread, whose plans of bf16_tile go over tiles, emulated if need be */
static int64_t emulated, native, ordinary, all;

/* ------------------------------------------------------------------------------------------------ the same bits -- */

static void compare(const fovea_tensor *got, const fovea_tensor *want, const char *what, const char *text) {
    const int64_t n = got->data ? tensor_elements(got) : 0;
    test_check(n == 0 || memcmp(got->data, want->data, (size_t)n * sizeof(float)) == 0, "%s: other %s", text, what);
}

static void check_on(const fovea_context *ctx, const char *where, const attention_case *c,
                     const fovea_attention_args *args, const fovea_attention_desc *desc, const outputs *want,
                     const char *text) {
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args own = *args;
    fovea_attention_stats stats;
    char sentence[768];
    fovea_attention_stats_init(&stats);
    snprintf(sentence, sizeof sentence, "%s, %s", text, where);
    own.out = got->out;
    own.lse = got->lse;
    own.weights = got->weights;
    own.stats = &stats;
    attention_case said = *c;
    said.desc = *desc;
    mask_words words = case_said(ctx, &said, &own);
    if (attention_runs(ctx, &words.desc, &words.args)) {
        compare(&got->out, &want->out, "out", sentence);
        compare(&got->lse, &want->lse, "lse", sentence);
        compare(&got->weights, &want->weights, "weights", sentence);
        if (ctx == over_tiles)
            *(over_tiles->cpu.emulates_tiles ? &emulated : &native) += stats.fast_tiles;
    }
    mask_words_free(&words);
    outputs_free(got);
}

static void check_case(const attention_case *c, rng *r, fovea_arithmetic arithmetic) {
    inputs *in = inputs_make(c, r);
    const fovea_tensor *values = &in->args.v;
    char line[512], text[640];
    if (tensor_elements(values) > 0 && rng_below(r, 2)) /* rows that do not see it must not show it */
        tensor_row(values, rng_below(r, values->shape[0]), rng_below(r, values->shape[1]),
                   rng_below(r, values->shape[2]))[0] = rng_below(r, 2) ? NAN : 0x1p-130f;
    for (int64_t i = 0, n = rng_below(r, 4) ? 0 : tensor_elements(values); i < n; i++)
        ((float *)values->data)[i] *= 0x1p-125f; /* subnormal sums, for which no tile may be used */
    snprintf(text, sizeof text, "%s: %s", fovea_arithmetic_name(arithmetic), case_text(c, line, sizeof line));
    outputs *want = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, want);
    fovea_attention_desc desc = c->desc;
    args.q = half_pair_tensor(&in->args.q, FOVEA_DTYPE_BF16);
    args.k = half_pair_tensor(&in->args.k, FOVEA_DTYPE_BF16);
    args.v = half_pair_tensor(&in->args.v, FOVEA_DTYPE_BF16);
    desc.dtype = FOVEA_DTYPE_BF16;
    desc.out_dtype = FOVEA_DTYPE_F32;
    desc.arithmetic = arithmetic;
    if (attention_runs(contexts.scalar, &desc, &args)) {
        for (int64_t i = 0, n = tensor_elements(&want->out); i < n; i++) {
            const float x = ((const float *)want->out.data)[i];
            ordinary += isfinite(x) && x != 0.0f;
            all++;
        }
        check_on(contexts.one, "one thread", c, &args, &desc, want, text);
        check_on(contexts.three, "three threads", c, &args, &desc, want, text);
        check_on(over_tiles, "over tiles", c, &args, &desc, want, text);
        fesetround(FE_UPWARD); /* a named arithmetic has its own mode */
        check_on(contexts.one, "rounding upward", c, &args, &desc, want, text);
        fesetround(FE_TONEAREST);
        fp_flush(true);
        check_on(contexts.one, "flushing to zero", c, &args, &desc, want, text);
        check_on(over_tiles, "flushing to zero, over tiles", c, &args, &desc, want, text);
        fp_flush(false);
    }
    half_pairs_free();
    outputs_free(want);
    inputs_free(in);
}

static void test_random(void) {
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "arithmetic %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, WORK);
        case_random_scores(&c, &r);
        if (rng_below(&r, 4) != 0)
            c.values = VALUES_RANDOM;
        check_case(&c, &r, n % 3 ? FOVEA_ARITHMETIC_BF16_TILE : FOVEA_ARITHMETIC_BF16);
    }
}

/* Blocks of many rows, split rows, few rows, windows that begin anywhere. */
static void test_long(void) {
    static const int64_t sizes[][6] = {{1, 2, 300, 600, 64, -1}, {2, 4, 1, 1500, 40, -1}, {1, 1, 200, 300, 80, 37},
                                       {1, 8, 7, 520, 128, 100}, {1, 1, 70, 70, 33, 20},  {1, 1, 65, 513, 16, -1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t *s = sizes[i];
        attention_case c = case_plain(s[0], s[1], s[1] / 2 > 0 ? s[1] / 2 : 1, s[2], s[3], s[4], s[4] - 8);
        rng r = rng_stream(test_seed(), "long");
        c.desc.causal = i % 2 ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_BOTTOM_RIGHT;
        c.desc.window_left = s[5];
        check_case(&c, &r, FOVEA_ARITHMETIC_BF16);
        check_case(&c, &r, FOVEA_ARITHMETIC_BF16_TILE);
    }
}

/* ------------------------------------------------------------------------------------------------------ formulas -- */

/* Sum of n products, as an arithmetic has it; element t is number first + t of its chain. */
static float product(bool tile, int64_t n, int64_t first, const float *a, const float *b, int64_t step) {
    float acc = 0.0f, part[2] = {0.0f, 0.0f};
    for (int64_t t = 0; t < n; t++) {
        float *to = tile ? &part[(first + t) % 2] : &acc;
        *to = fmaf(a[t], b[t * step], *to);
        if (tile && (t + 1 == n || (first + t + 1) % FV_BLOCK == 0)) {
            acc = acc + (part[0] + part[1]);
            part[0] = part[1] = 0.0f;
        }
    }
    return acc;
}

static float exp_of(float x) {
    float y;
    fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32)->run.exp_f32(1, &x, &y);
    return y;
}

/* One row of queries over keys [begin, end), all attended. */
static void reference_row(bool tile, int64_t dim, int64_t begin, int64_t end, const float *q, float c, const float *k,
                          const float *v, float *out) {
    float M = -INFINITY, L = 0.0f, O[64] = {0};
    for (int64_t at = begin; at < end; at = (at / FV_SEGMENT + 1) * FV_SEGMENT) {
        const int64_t next = (at / FV_SEGMENT + 1) * FV_SEGMENT, stop = next < end ? next : end;
        float p[FV_SEGMENT], lane[FV_LANES] = {0.0f}, m = -INFINITY;
        for (int64_t i = at; i < stop; i++) {
            p[i - at] = c * product(tile, dim, 0, q, k + i * dim, 1);
            m = fmaxf(m, p[i - at]);
        }
        for (int64_t i = at; i < stop; i++) {
            float x = exp_of(p[i - at] - m);
            uint16_t half;
            convert_elements(1, &x, FOVEA_DTYPE_F32, &half, FOVEA_DTYPE_BF16);
            convert_elements(1, &half, FOVEA_DTYPE_BF16, &p[i - at], FOVEA_DTYPE_F32);
            p[i - at] = x < 0x1p-40f ? 0.0f : p[i - at];
            lane[i % FV_LANES] += p[i - at];
        }
        for (int width = FV_LANES / 2; width > 0; width /= 2)
            for (int j = 0; j < width; j++)
                lane[j] += lane[j + width];
        const float high = fmaxf(M, m), a = exp_of(M - high), b = exp_of(m - high);
        L = fmaf(L, a, lane[0] * b);
        for (int64_t d = 0; d < dim; d++)
            O[d] = fmaf(O[d], a, product(tile, stop - at, at % FV_SEGMENT, p, v + at * dim + d, dim) * b);
        M = high;
    }
    for (int64_t d = 0; d < dim; d++)
        out[d] = O[d] * (1.0f / L) + 0.0f;
}

static void check_formulas(const fovea_context *ctx, fovea_arithmetic arithmetic, int64_t dim, int64_t keys,
                           int64_t window) {
    enum { ROWS = 40, KEYS = 600, DIM = 64 };
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], out[ROWS * DIM];
    static uint16_t halves[3][KEYS * DIM];
    float *wide[] = {q, k, v};
    rng r = rng_stream(test_seed(), "formulas");
    fovea_attention_desc d = case_plain(1, 1, 1, ROWS, keys, dim, dim).desc;
    fovea_attention_args args;
    for (int i = 0; i < 3; i++) {
        const int64_t n = (i ? keys : ROWS) * dim;
        for (int64_t j = 0; j < n; j++)
            wide[i][j] = (i ? 1.0f : 4.0f) * rng_normal(&r);
        convert_elements(n, wide[i], FOVEA_DTYPE_F32, halves[i], FOVEA_DTYPE_BF16);
        convert_elements(n, halves[i], FOVEA_DTYPE_BF16, wide[i], FOVEA_DTYPE_F32);
    }
    d.dtype = FOVEA_DTYPE_BF16;
    d.out_dtype = FOVEA_DTYPE_F32;
    d.arithmetic = arithmetic;
    d.has_scale = 1;
    d.scale = 0.375; /* 2^-2 * 1.5 */
    d.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.window_left = window;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(halves[0], FOVEA_DTYPE_BF16, 1, 1, ROWS, dim);
    args.k = fovea_tensor_bhtd(halves[1], FOVEA_DTYPE_BF16, 1, 1, keys, dim);
    args.v = fovea_tensor_bhtd(halves[2], FOVEA_DTYPE_BF16, 1, 1, keys, dim);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, ROWS, dim);
    if (!attention_runs(ctx, &d, &args))
        return;
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t last = keys - ROWS + i, begin = window >= 0 && last > window ? last - window : 0;
        float scaled[DIM], want[DIM];
        for (int64_t j = 0; j < dim; j++)
            scaled[j] = 0.25f * q[i * dim + j];
        reference_row(arithmetic == FOVEA_ARITHMETIC_BF16_TILE, dim, begin, last + 1, scaled, 1.5f, k, v, want);
        test_check(memcmp(want, out + i * dim, (size_t)dim * sizeof(float)) == 0,
                   "%s, %" PRId64 " channels, %" PRId64 " keys, window %" PRId64 ": row %" PRId64
                   " is not what the formulas give",
                   fovea_arithmetic_name(arithmetic), dim, keys, window, i);
    }
}

static void test_formulas(void) {
    static const int64_t sizes[][3] = {{64, 600, -1}, {40, 41, -1}, {33, 300, 50}, {16, 512, 17}, {7, 90, 3}};
    const fovea_context *on[] = {contexts.scalar, contexts.one, over_tiles};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int c = 0; c < 3; c++) {
            check_formulas(on[c], FOVEA_ARITHMETIC_BF16, sizes[i][0], sizes[i][1], sizes[i][2]);
            check_formulas(on[c], FOVEA_ARITHMETIC_BF16_TILE, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
}

/* ----------------------------------------------------------------------------------------- the edge of the guard -- */

/* Two keys whose products with their values cancel but for 2^(least - 54): p are 200 and 199 times 2^-47, values 200
 * and -201 times 2^(least - 7). Of least -72 that is the smallest normal number; of -73 it is subnormal, and no unit
 * that flushes may compute it. The first key has all of the weight and no value; the others have no weight. */
static void check_edge(const fovea_context *ctx, const char *where, fovea_arithmetic arithmetic, int least) {
    enum { ROWS = 40, KEYS = 40, DIM = 2, CHANNELS = 20 };
    const float size = ldexpf(1.0f, least - 7), want = ldexpf(1.0f, least - 54);
    float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * CHANNELS], out[ROWS * CHANNELS];
    uint16_t halves[3][KEYS * CHANNELS];
    for (int i = 0; i < ROWS * DIM; i++)
        q[i] = 1.0f;
    for (int i = 0; i < KEYS; i++) { /* a score in two parts */
        const float score = i == 0 ? 0.0f : i < 3 ? (float)log(ldexp(201 - i, -47)) : -512.0f;
        k[2 * i] = truncf(score);
        k[2 * i + 1] = score - k[2 * i];
        for (int j = 0; j < CHANNELS; j++)
            v[i * CHANNELS + j] = i == 0 ? 0.0f : i == 1 ? 200.0f * size : i == 2 ? -201.0f * size : 1.0f;
    }
    convert_elements(ROWS * DIM, q, FOVEA_DTYPE_F32, halves[0], FOVEA_DTYPE_BF16);
    convert_elements(KEYS * DIM, k, FOVEA_DTYPE_F32, halves[1], FOVEA_DTYPE_BF16);
    convert_elements(KEYS * CHANNELS, v, FOVEA_DTYPE_F32, halves[2], FOVEA_DTYPE_BF16);
    fovea_attention_desc d = case_plain(1, 1, 1, ROWS, KEYS, DIM, CHANNELS).desc;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    d.dtype = FOVEA_DTYPE_BF16;
    d.out_dtype = FOVEA_DTYPE_F32;
    d.arithmetic = arithmetic;
    d.has_scale = 1;
    d.scale = 1.0;
    args.q = fovea_tensor_bhtd(halves[0], FOVEA_DTYPE_BF16, 1, 1, ROWS, DIM);
    args.k = fovea_tensor_bhtd(halves[1], FOVEA_DTYPE_BF16, 1, 1, KEYS, DIM);
    args.v = fovea_tensor_bhtd(halves[2], FOVEA_DTYPE_BF16, 1, 1, KEYS, CHANNELS);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, ROWS, CHANNELS);
    if (!attention_runs(ctx, &d, &args))
        return;
    int64_t wrong = 0;
    for (int i = 0; i < ROWS * CHANNELS; i++)
        wrong += float_bits(out[i]) != float_bits(want);
    test_check(wrong == 0, "%s, values from 2^%d, %s: %" PRId64 " outputs are not %a, the first is %a",
               fovea_arithmetic_name(arithmetic), least, where, wrong, (double)want, (double)out[0]);
}

static void test_edge(void) {
    for (int least = -74; least <= -71; least++)
        for (int tile = 0; tile < 2; tile++) {
            const fovea_arithmetic arithmetic = tile ? FOVEA_ARITHMETIC_BF16_TILE : FOVEA_ARITHMETIC_BF16;
            check_edge(contexts.scalar, "scalar", arithmetic, least);
            check_edge(contexts.one, "one thread", arithmetic, least);
            check_edge(over_tiles, "over tiles", arithmetic, least);
        }
}

/* -------------------------------------------------------------------------------------------------------- errors -- */

static void test_errors(void) {
    fovea_attention_desc d = case_plain(1, 1, 1, 2, 2, 4, 4).desc;
    fovea_attention_plan *plan;
    char text[2048];
    d.arithmetic = FOVEA_ARITHMETIC_BF16;
    check_status("floats in bf16", fovea_attention_plan_create(contexts.one, &d, &plan), FOVEA_ERROR_UNSUPPORTED,
                 "FOVEA_ARITHMETIC_BF16|dtype");
    d.dtype = FOVEA_DTYPE_BF16;
    d.v_dtype = FOVEA_DTYPE_F16;
    d.arithmetic = FOVEA_ARITHMETIC_BF16_TILE;
    check_status("values of float16 in bf16_tile", fovea_attention_plan_create(contexts.one, &d, &plan),
                 FOVEA_ERROR_UNSUPPORTED, "FOVEA_ARITHMETIC_BF16_TILE|v_dtype");
    d.arithmetic = (fovea_arithmetic)7;
    check_status("arithmetic 7", fovea_attention_plan_create(contexts.one, &d, &plan), FOVEA_ERROR_ARGUMENT,
                 "arithmetic");
    d.arithmetic = FOVEA_ARITHMETIC_FASTEST; /* falls to exact for mixed types */
    if (test_check(fovea_attention_plan_create(contexts.one, &d, &plan) == FOVEA_OK, "%s", fovea_error_detail())) {
        fovea_attention_plan_describe(plan, text, sizeof text);
        test_check(strstr(text, "arithmetic exact") != NULL, "fastest of mixed types: %s", text);
        fovea_attention_plan_destroy(plan);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arithmetic", NULL);
    contexts = contexts_make();
    over_tiles = context_of(FOVEA_ISA_BEST, 1, NULL);
    const bool emulates =
        fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, over_tiles->target)->isa == FV_ISA_scalar;
    over_tiles->cpu.emulates_tiles = emulates;
    test_random();
    test_long();
    test_formulas();
    test_edge();
    test_errors();
    printf("arithmetic: %" PRId64 " tiles of scores over emulated AMX tiles, %" PRId64 " over the CPU's\n", emulated,
           native);
    test_check(emulated + native > 100, "only %" PRId64 " tiles went over AMX tiles", emulated + native);
    test_check(ordinary > all / 2, "only %" PRId64 " of %" PRId64 " outputs are ordinary numbers", ordinary, all);
    if (emulates)
        test_skip("bf16_tile over the CPU's tiles: no amx_bf16 here, they were emulated");
    fovea_context_destroy(over_tiles);
    contexts_free(&contexts);
    return test_end();
}
