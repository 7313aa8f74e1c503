/* test-quantize: scales too small for normal numbers of float16, and what a search finds at its ends. */
#include "quantization/read.h"
#include "quantize_case.h"

#include <math.h>

/* Groups whose scales float16 holds as subnormal numbers, or not at all: their units of 2^-24 are to nearest, too. */
static void check_small(const fovea_context *ctx, fovea_dtype to, rng *r) {
    enum { IN = 256, OUT = 8 };
    const bool bytes = to == FOVEA_DTYPE_I8 || to == FOVEA_DTYPE_Q8_0, minimum = to == FOVEA_DTYPE_Q4_1;
    const fovea_quantize_options o = options_of(to == FOVEA_DTYPE_I8 ? 32 : 0, FOVEA_DTYPE_F16, 0);
    float x[IN * OUT];
    for (int exponent = -20; exponent <= 4; exponent++) {
        for (int i = 0; i < IN * OUT; i++)
            x[i] = ldexpf(rng_normal(r), exponent);
        const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
        const result got = quantize(ctx, &from, to, &o);
        float *numbers = numbers_of(ctx, &got, to, IN, OUT, &o);
        for (int g = 0; g < IN * OUT; g += 32) {
            double low = INFINITY, high = -INFINITY, worst = 0;
            for (int i = g; i < g + 32; i++) {
                low = fmin(low, x[i]);
                high = fmax(high, x[i]);
                worst = fmax(worst, fabs((double)numbers[i] - x[i]));
            }
            const double top = fmax(-low, high), step = minimum ? (high - low) / 15 : top / (bytes ? 127 : 7);
            const double bound = step * (bytes ? 0.51 : 1) + (bytes ? 127 : 15) * fmax(step * 0x1p-11, 0x1p-25) +
                                 (minimum ? fmax(-low * 0x1p-11, 0x1p-25) : 0);
            test_check(worst <= bound, "%s, times 2^%d: off by %g, and no more than %g may be",
                       fv_enum_name(FV_ENUM_dtype, (int)to), exponent, worst, bound);
        }
        free(numbers);
        result_free(&got);
    }
}

/* U4 has both of its scales, without a search: a group is exact by top / -8, the other by top / 7. */
static void check_both_scales(const fovea_context *ctx) {
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i < 32 ? i % 16 - 8 : i % 15 - 7);
    const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, 1, 64);
    const result got = quantize(ctx, &from, FOVEA_DTYPE_U4, NULL);
    test_check(got.error.max == 0, "U4: the error of integers is %g", got.error.max);
    result_free(&got);
}

/* Rows whose integers are exact by the first, and by the last, scale that a search tries, and by no other. */
static void check_search_ends(const fovea_context *ctx, rng *r) {
    enum { IN = 1 << 16 };
    const fovea_quantize_options o = options_of(0, FOVEA_DTYPE_F32, 1);
    float *x = must_alloc(IN, sizeof *x);
    for (int last = 0; last < 2; last++) {
        const int64_t most = last ? 127 : 95;
        for (int i = 1; i < IN; i++)
            x[i] = (float)rng_between(r, -most, most);
        x[0] = last ? 127 * 1.25f : 127 * 0.75f;
        const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, 1, IN);
        const result got = quantize(ctx, &from, FOVEA_DTYPE_I8, &o);
        const double alone = (double)(x[0] - (float)most);
        test_check(got.error.rms * got.error.rms * IN <= alone * alone, "the %s scale of a search: the error is %g",
                   last ? "last" : "first", got.error.rms);
        result_free(&got);
    }
    free(x);
}

/* The squared error of a group by s and m. */
static double error_by(const float x[32], float d, float e, int s, int m) {
    const float scale = d * (float)s, minimum = -(e * (float)m), factor = scale >= 0x1p-126f ? 1 / scale : 0;
    double sum = 0;
    for (int i = 0; i < 32; i++) {
        const double error = (double)(scale * rintf(fminf(fmaxf((x[i] - minimum) * factor, 0), 15)) + minimum) - x[i];
        sum += error * error;
    }
    return sum;
}

/* A search of Q4_K: no other s is better with the rule's m, and no other m with the s that was chosen. */
static void check_search_q4_k(const fovea_context *ctx, rng *r) {
    enum { IN = 256, OUT = 64 };
    float x[IN * OUT];
    for (int i = 0; i < IN * OUT;
         i++) /* groups of many sizes, as 3/4 of a small s or m is one less, and of nearly one */
        x[i] = i / IN % 2 ? 2 * rng_unit(r) - 1 : ldexpf(rng_normal(r) + (float)(i / 32 % 3) / 2, -(i / 32 * 5 % 8));
    const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
    const fovea_quantize_options o = options_of(0, FOVEA_DTYPE_F16, 1);
    const result got = quantize(ctx, &from, FOVEA_DTYPE_Q4_K, &o);
    const fovea_matrix blocks = fovea_matrix_out_in(got.data, FOVEA_DTYPE_Q4_K, OUT, IN);
    const fv_reader reader = fv_read_begin(&blocks, NULL);
    for (int g = 0; g < IN * OUT / 32; g++) {
        const fv_block_scales super = fv_read_super(&reader, g / 8, 0);
        const int s = super.s[g % 8], m = super.m[g % 8];
        const float *of = x + 32 * (ptrdiff_t)g;
        const float d = fv_scale_float(FV_SCALES_f16, &super.d), e = fv_scale_float(FV_SCALES_f16, &super.e);
        float low = 0, high = of[0];
        for (int i = 0; i < 32; i++) {
            low = fminf(low, of[i]);
            high = fmaxf(high, of[i]);
        }
        const int rule_s = (int)fminf(rintf((high - low) / 15 / d), 63), rule_m = (int)fminf(rintf(-low / e), 63);
        double least = INFINITY;
        for (int k = rule_s * 3 / 4; k <= rule_s + 1 && k <= 63; k++)
            least = fmin(least, error_by(of, d, e, k, rule_m));
        for (int k = rule_m * 3 / 4; k <= rule_m + 1 && k <= 63; k++)
            least = fmin(least, error_by(of, d, e, s, k));
        const double is = error_by(of, d, e, s, m);
        test_check(is <= least * 1.001, "a search of Q4_K, group %d: an error of %g, not %g", g, is, least);
    }
    result_free(&got);
}

void check_scales(const fovea_context *ctx, rng *r) {
    static const fovea_dtype dtypes[] = {FOVEA_DTYPE_I8, FOVEA_DTYPE_U4, FOVEA_DTYPE_Q8_0, FOVEA_DTYPE_Q4_0,
                                         FOVEA_DTYPE_Q4_1};
    for (int i = 0; i < 5; i++)
        check_small(ctx, dtypes[i], r);
    check_both_scales(ctx);
    check_search_ends(ctx, r);
    check_search_q4_k(ctx, r);
}
