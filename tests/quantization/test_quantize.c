/* fovea_quantize(): Q8_0, Q4_0 and Q4_1 have the bytes of the gguf package (data/quantized.py), I8, U4 and Q4_K keep
 * their rules (docs/types.md); the same bytes for any number of threads, strides and types of the source; the error is
 * that of float64; a search never makes it larger; and what is refused, with nothing written. */
#include "quantize_case.h"
#include "recorded.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const fovea_dtype dtypes[] = {FOVEA_DTYPE_I8,   FOVEA_DTYPE_U4,   FOVEA_DTYPE_Q8_0,
                                     FOVEA_DTYPE_Q4_0, FOVEA_DTYPE_Q4_1, FOVEA_DTYPE_Q4_K};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void check_recorded(const fovea_context *ctx) {
    float *x = fill(7, 256);
    for (int i = 0; i < 256; i++)
        x[i] *= (float)(1 + i / 32 % 4) / 3.0f;
    for (int i = 0; i < 3; i++) {
        static const fovea_dtype blocks[] = {FOVEA_DTYPE_Q8_0, FOVEA_DTYPE_Q4_0, FOVEA_DTYPE_Q4_1};
        static const char *const names[] = {"quantized/Q8_0", "quantized/Q4_0", "quantized/Q4_1"};
        const fovea_dtype to = blocks[i];
        const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, 1, 256);
        const result got = quantize(ctx, &from, to, NULL);
        const void *want = test_array_named(names[i], "uint8", (int64_t)got.data_bytes);
        test_check(got.status == FOVEA_OK && memcmp(got.data, want, got.data_bytes) == 0,
                   "%s has other bytes than gguf's", fv_enum_name(FV_ENUM_dtype, (int)to));
        result_free(&got);
    }
    free(x);
}

static float *some_weights(int64_t n, rng *r) {
    float *x = must_alloc(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        switch (i / 256 % 7) {
        case 0: x[i] = 0.0f; break;
        case 1: x[i] = rng_unit(r) + 0.5f; break;
        case 2: x[i] = -rng_unit(r); break;
        case 3: x[i] = rng_normal(r) * 0x1p-140f; break;
        case 4: x[i] = rng_normal(r) * 1000; break;
        case 5: x[i] = i % 32 == 5 ? 4.0f : rng_normal(r) / 64; break;
        default: x[i] = rng_normal(r) / 16;
        }
    return x;
}

/* The same bytes by other threads and strides; the error; a search; and the bound of half a step. */
static void check_type(fovea_context *const contexts[3], fovea_dtype to, fovea_quantize_options o, rng *r) {
    enum { IN = 1024, OUT = 21 };
    char what[64];
    snprintf(what, sizeof what, "%s, groups of %" PRId64, fv_enum_name(FV_ENUM_dtype, (int)to), o.group_size);
    float *x = some_weights(IN * OUT, r), *turned = must_alloc(IN * OUT, sizeof *turned);
    for (int64_t i = 0; i < IN * OUT; i++)
        turned[i % IN * OUT + i / IN] = x[i];
    const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN),
                       other = fovea_matrix_in_out(turned, FOVEA_DTYPE_F32, IN, OUT);
    result plain = {0};
    for (o.search = 0; o.search < 2; o.search++) {
        const result one = quantize(contexts[0], &from, to, &o);
        test_check(one.status == FOVEA_OK, "%s: %s", what, fovea_error_detail());
        for (int k = 1; k < 3; k++) {
            fesetround(k == 1 ? FE_UPWARD : FE_TOWARDZERO);
            const result more = quantize(contexts[k], k == 1 ? &from : &other, to, &o);
            fesetround(FE_TONEAREST);
            test_check(memcmp(one.data, more.data, one.data_bytes) == 0 &&
                           memcmp(one.scales, more.scales, one.scale_bytes) == 0 &&
                           memcmp(&one.error, &more.error, sizeof one.error) == 0,
                       "%s: threads, strides or the rounding mode change bits", what);
            result_free(&more);
        }
        float *numbers = numbers_of(contexts[0], &one, to, IN, OUT, &o);
        double most = 0, sum = 0, given = 0;
        for (int64_t i = 0; i < IN * OUT; i++) {
            const double error = fabs((double)numbers[i] - x[i]);
            most = fmax(most, error);
            sum += error * error;
            given += (double)x[i] * x[i];
        }
        const fovea_quantize_stats *e = &one.error;
        test_check(e->max == most && fabs(e->rms - sqrt(sum / (IN * OUT))) <= 1e-12 * e->rms &&
                       fabs(e->relative - sqrt(sum / given)) <= 1e-12 * e->relative && e->rms > 0,
                   "%s: the error is %g %g %g", what, e->max, e->rms, e->relative);
        free(numbers);
        if (o.search == 0) {
            plain = one;
            continue;
        }
        test_check(e->rms < plain.error.rms, "%s: a search has an error of %g, not less than %g", what, e->rms,
                   plain.error.rms);
        result_free(&one);
    }
    result_free(&plain);
    free(x);
    free(turned);
}

/* I8 by its formula, and sources of 16 bits. */
static void check_rules(const fovea_context *ctx, rng *r) {
    enum { IN = 256, OUT = 5 };
    float *x = some_weights(IN * OUT, r);
    const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
    const result got = quantize(ctx, &from, FOVEA_DTYPE_I8, NULL);
    for (int o = 0; o < OUT; o++) {
        float most = 0, scale;
        int wrong = 0;
        for (int i = 0; i < IN; i++)
            most = fmaxf(most, fabsf(x[o * IN + i]));
        memcpy(&scale, got.scales + 4 * o, sizeof scale);
        for (int i = 0; i < IN; i++)
            wrong +=
                (int8_t)got.data[o * IN + i] != (most / 127 >= 0x1p-126f ? (int)rintf(x[o * IN + i] * (1 / scale)) : 0);
        test_check(scale == most / 127 && wrong == 0, "I8, row %d: scale %a, %d integers differ", o, (double)scale,
                   wrong);
    }
    result_free(&got);
    const fovea_dtype halves[] = {FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    for (int k = 0; k < 2; k++) {
        uint16_t *narrow = must_alloc(IN * OUT, sizeof *narrow);
        if (fovea_convert(IN * OUT, x, FOVEA_DTYPE_F32, narrow, halves[k]) != FOVEA_OK) {
            test_skip("a type of 16 bits that this build leaves out");
            free(narrow);
            continue;
        }
        fovea_convert(IN * OUT, narrow, halves[k], x, FOVEA_DTYPE_F32);
        const fovea_matrix half = fovea_matrix_out_in(narrow, halves[k], OUT, IN);
        for (int i = 0; i < DTYPES; i++) {
            const result a = quantize(ctx, &from, dtypes[i], NULL), b = quantize(ctx, &half, dtypes[i], NULL);
            test_check(a.status == FOVEA_OK && b.status == FOVEA_OK && memcmp(a.data, b.data, a.data_bytes) == 0 &&
                           memcmp(a.scales, b.scales, a.scale_bytes) == 0,
                       "%s from 16 bits", fv_enum_name(FV_ENUM_dtype, (int)dtypes[i]));
            result_free(&a);
            result_free(&b);
        }
        free(narrow);
    }
    free(x);
}

/* No number of Q4_K is further off than half a step of its group, and what rounding s and m to 6 bits moves. */
static void check_q4_k(const fovea_context *ctx, int exponent, rng *r) {
    enum { IN = 256, OUT = 64 };
    float *x = some_weights(IN * OUT, r);
    for (int i = 0; i < IN * OUT; i++)
        x[i] = ldexpf(x[i], exponent);
    const fovea_matrix from = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
    const fovea_quantize_options o = options_of(0, FOVEA_DTYPE_F16, 0);
    const result got = quantize(ctx, &from, FOVEA_DTYPE_Q4_K, &o);
    float *numbers = numbers_of(ctx, &got, FOVEA_DTYPE_Q4_K, IN, OUT, &o);
    for (int b = 0; b < OUT; b++) {
        double step = 0, depth = 0, worst = 0;
        for (int g = 0; g < 8; g++) {
            double low = 0, high = -INFINITY;
            for (int i = 0; i < 32; i++) {
                const double v = x[b * IN + g * 32 + i];
                low = fmin(low, v);
                high = fmax(high, v);
                worst = fmax(worst, fabs((double)numbers[b * IN + g * 32 + i] - v));
            }
            step = fmax(step, (high - low) / 15);
            depth = fmax(depth, -low);
        }
        const double bound = (step / 2 + 15 * step / 126 + depth / 126) * 1.01 + 0x1p-25 * 15 * 63 * 2;
        test_check(worst <= bound, "Q4_K, times 2^%d, block %d: off by %g, and no more than %g may be", exponent, b,
                   worst, bound);
    }
    free(numbers);
    result_free(&got);
    free(x);
}

/* ------------------------------------------------------------------------------------------------------- refused -- */

static void refused(const fovea_context *ctx, const fovea_matrix *from, fovea_dtype to,
                    const fovea_quantize_options *options, fovea_status want, const char *sentence) {
    uint8_t data[4096], scales[4096];
    fovea_quantize_stats error;
    fovea_quantize_stats_init(&error);
    error.max = -1;
    memset(data, 0x5a, sizeof data);
    memset(scales, 0x5a, sizeof scales);
    const fovea_status status = fovea_quantize(ctx, from, to, options, data, scales, &error);
    int written = 0;
    for (size_t i = 0; i < sizeof data; i++)
        written += data[i] != 0x5a || scales[i] != 0x5a;
    test_check(status == want && strstr(fovea_error_detail(), sentence) && written == 0 && error.max == -1,
               "%s, not %s (%d bytes written): %s", sentence, fovea_status_name(status), written, fovea_error_detail());
}

static void check_refused(const fovea_context *ctx) {
    enum { IN = 256, OUT = 4 };
    static float x[IN * OUT];
    fovea_matrix m = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
    fovea_quantization q;
    size_t bytes;
    fovea_quantization_init(&q);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < DTYPES; i++) {
        for (int k = 0; k < 3; k++) {
            x[3 * IN + 200] = bad[k];
            refused(ctx, &m, dtypes[i], NULL, FOVEA_ERROR_ARGUMENT,
                    "output channel 3 of from has a number that is NaN");
        }
        x[3 * IN + 200] = dtypes[i] == FOVEA_DTYPE_I8 ? NAN : 3e38f; /* too large for float16 */
        refused(ctx, &m, dtypes[i], NULL, FOVEA_ERROR_ARGUMENT, "too large for a scale");
        x[3 * IN + 200] = 0;
    }
    x[0] = 3e38f;
    x[1] = -3e38f; /* whose difference is infinite */
    refused(ctx, &m, FOVEA_DTYPE_Q4_1, NULL, FOVEA_ERROR_ARGUMENT, "output channel 0");
    refused(ctx, &m, FOVEA_DTYPE_Q4_K, NULL, FOVEA_ERROR_ARGUMENT, "output channel 0");
    x[0] = x[1] = 0;
    refused(ctx, &m, FOVEA_DTYPE_Q5_K, NULL, FOVEA_ERROR_DTYPE, "fovea_quantize makes");
    refused(ctx, &m, FOVEA_DTYPE_U8, NULL, FOVEA_ERROR_DTYPE, "fovea_quantize makes");
    refused(ctx, &m, FOVEA_DTYPE_F32, NULL, FOVEA_ERROR_DTYPE, "fovea_quantize makes");
    fovea_quantize_options o = options_of(48, FOVEA_DTYPE_F16, 0);
    refused(ctx, &m, FOVEA_DTYPE_U4, &o, FOVEA_ERROR_SHAPE, "no multiple of group_size 48");
    o = options_of(0, FOVEA_DTYPE_I8, 0);
    refused(ctx, &m, FOVEA_DTYPE_U4, &o, FOVEA_ERROR_DTYPE, "scale_dtype");
    o = options_of(0, FOVEA_DTYPE_F16, 0);
    o.struct_size = 8;
    refused(ctx, &m, FOVEA_DTYPE_U4, &o, FOVEA_ERROR_VERSION, "fovea_quantize_options");
    m.in = 40;
    refused(ctx, &m, FOVEA_DTYPE_Q4_0, NULL, FOVEA_ERROR_SHAPE, "no multiple of the 32 elements");
    refused(ctx, &m, FOVEA_DTYPE_U4, NULL, FOVEA_ERROR_SHAPE, "no multiple of group_size 32");
    m.in = 0;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_SHAPE, "must be at least 1");
    m.in = INT64_C(1) << 50;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_OVERFLOW, "too large");
    m.in = IN;
    m.in_stride = -1;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_STRIDE, "negative stride");
    m.in_stride = INT64_C(1) << 60;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_OVERFLOW, "strides of from");
    m.in_stride = 1;
    m.quantization = &q;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_DTYPE, "has a quantization");
    m.quantization = NULL;
    m.dtype = FOVEA_DTYPE_Q4_0;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_DTYPE, "fovea_quantize takes");
    m.dtype = FOVEA_DTYPE_F32;
    m.data = NULL;
    refused(ctx, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_NULL, "data of from");
    refused(NULL, &m, FOVEA_DTYPE_I8, NULL, FOVEA_ERROR_NULL, "ctx");
    m.data = x;
    test_check(fovea_quantize(ctx, &m, FOVEA_DTYPE_I8, NULL, x, NULL, NULL) == FOVEA_ERROR_NULL &&
                   strstr(fovea_error_detail(), "scales is NULL"),
               "no scales: %s", fovea_error_detail());
    static const char *const overlaps[] = {"data overlaps data of from", "scales overlaps data of from",
                                           "data overlaps scales", "data overlaps error"};
    fovea_quantize_stats error[100];
    fovea_quantize_stats_init(error);
    for (int i = 0; i < 4; i++) {
        static float apart[2][IN * OUT];
        void *data = i == 0 ? (char *)(x + IN * OUT) - 1 : i == 3 ? (char *)(error + 1) - 1 : (char *)apart[0];
        void *scales = i == 1 ? (char *)x : i == 2 ? (char *)apart[0] + IN * OUT - 1 : (char *)apart[1];
        test_check(fovea_quantize(ctx, &m, FOVEA_DTYPE_I8, NULL, data, scales, error) == FOVEA_ERROR_ALIAS &&
                       strstr(fovea_error_detail(), overlaps[i]),
                   "%s: %s", overlaps[i], fovea_error_detail());
    }
    test_check(fovea_quantize_size(FOVEA_DTYPE_I8, 1, 1, NULL, NULL, &bytes) == FOVEA_ERROR_NULL,
               "a size that is NULL");
}

/* The first of two bad rows is named, though the other one is the first of its thread. */
static void check_first_refused(const fovea_context *two_threads) {
    enum { IN = 4096, OUT = 32, REPEATS = 30 };
    static float x[IN * OUT];
    x[(OUT / 2 - 1) * IN] = x[OUT / 2 * IN] = NAN;
    for (int i = 0; i < REPEATS; i++) {
        const fovea_matrix m = fovea_matrix_out_in(x, FOVEA_DTYPE_F32, OUT, IN);
        refused(two_threads, &m, FOVEA_DTYPE_Q4_1, NULL, FOVEA_ERROR_ARGUMENT, "output channel 15");
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "quantize", NULL);
    test_arrays_read("quantized");
    rng r = rng_stream(test_seed(), "quantize");
    fovea_context *contexts[3] = {test_context_untuned(), context_with_pool(2), context_with_pool(3)};
    check_recorded(contexts[0]);
    for (int i = 0; i < DTYPES; i++)
        check_type(contexts, dtypes[i], options_of(0, FOVEA_DTYPE_F16, 0), &r);
    for (int i = 0; i < 2; i++) {
        check_type(contexts, dtypes[i], options_of(64, FOVEA_DTYPE_F32, 0), &r);
        check_type(contexts, dtypes[i], options_of(128, FOVEA_DTYPE_BF16, 0), &r);
    }
    check_rules(contexts[0], &r);
    for (int exponent = -20; exponent <= 4; exponent += 4)
        check_q4_k(contexts[0], exponent, &r);
    check_scales(contexts[0], &r);
    check_refused(contexts[0]);
    check_first_refused(contexts[1]);
    for (int i = 0; i < 3; i++)
        fovea_context_destroy(contexts[i]);
    return test_end();
}
