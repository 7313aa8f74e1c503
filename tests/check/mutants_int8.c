/* Mutants of dot and gemm_thin of int8. */
#include "mutants.h"

#include "multiply_call.h"

#include <string.h>

static void dot_honest(const fv_dot_i8_args *x) { fv_kernel_scalar(FV_OP_dot, FV_TYPE_i8)->run.dot_i8(x); }

static void dot_misses_last_channel(const fv_dot_i8_args *x) {
    fv_dot_i8_args y = *x;
    y.channels -= y.channels > 1 && y.channels % 4 == 1;
    dot_honest(&y);
}

static void dot_forgets_maxima(const fv_dot_i8_args *x) { /* of the keys before */
    fv_dot_i8_args y = *x;
    y.accumulate_max = 0;
    dot_honest(&y);
}

static int32_t q_of(const fv_dot_i8_args *x, int64_t i, int64_t t) {
    const fv_i8_word *word = x->q + t / 4 * fv_dot_stride(x->rows) + i;
    return 128 * word->high[t % 4] + word->low[t % 4];
}

static int32_t k_of(const fv_dot_i8_args *x, int64_t j, int64_t t) {
    const int64_t place = x->first + j;
    return x->k[place / FV_KEY_GROUP * x->ldk - x->first * 4 + fv_lane_of(place % FV_KEY_GROUP, t, 4)];
}

static void dot_forgets_first(const fv_dot_i8_args *x) { /* keys as if the first began a group */
    fv_dot_i8_args y = *x;
    y.first = 0;
    dot_honest(&y);
}

/* Scores of another formula, columns past the keys by the honest one. */
static void dot_by(const fv_dot_i8_args *x, float (*score)(const fv_dot_i8_args *x, int64_t i, int64_t j)) {
    fv_dot_i8_args y = *x;
    dot_honest(&y);
    for (int64_t i = 0; i < x->rows && !x->row_max; i++)
        for (int64_t j = 0; j < x->keys; j++)
            x->s[i * x->lds + j] = score(x, i, j);
}

static float saturated(const fv_dot_i8_args *x, int64_t i, int64_t j) { /* pairs, as VPMADDUBSW adds them */
    int32_t sum = 0;
    for (int64_t t = 0; t < x->channels; t += 2) {
        int32_t low = 0, high = 0;
        for (int64_t u = t; u < t + 2 && u < x->channels; u++) {
            const int32_t k = k_of(x, j, u) + 128, q = q_of(x, i, u), top = (q + 64) >> 7;
            high += k * top;
            low += k * (q - 128 * top);
        }
        sum += 128 * (high > INT16_MAX ? INT16_MAX : high < INT16_MIN ? INT16_MIN : high) + low;
    }
    return (float)(sum - 128 * x->q_sums[i]) * (x->q_scales[i] * x->k_scales[j]);
}
static void dot_saturates(const fv_dot_i8_args *x) { dot_by(x, saturated); }

static float in_float(const fv_dot_i8_args *x, int64_t i, int64_t j) { /* a chain of float32 */
    float sum = 0.0f;
    for (int64_t t = 0; t < x->channels; t++)
        sum += (float)(q_of(x, i, t) * k_of(x, j, t));
    return sum * (x->q_scales[i] * x->k_scales[j]);
}
static void dot_adds_floats(const fv_dot_i8_args *x) { dot_by(x, in_float); }

static int32_t exact(const fv_dot_i8_args *x, int64_t i, int64_t j) {
    int32_t sum = 0;
    for (int64_t t = 0; t < x->channels; t++)
        sum += q_of(x, i, t) * k_of(x, j, t);
    return sum;
}

static float one_by_one(const fv_dot_i8_args *x, int64_t i, int64_t j) { /* the scales */
    return (float)exact(x, i, j) * x->q_scales[i] * x->k_scales[j];
}
static void dot_scales_in_turn(const fv_dot_i8_args *x) { dot_by(x, one_by_one); }

static float without_sum(const fv_dot_i8_args *x, int64_t i, int64_t j) {
    return (float)(exact(x, i, j) + 128 * x->q_sums[i]) * (x->q_scales[i] * x->k_scales[j]);
}
static void dot_forgets_sum(const fv_dot_i8_args *x) { dot_by(x, without_sum); }

static void dot_leaves_columns(const fv_dot_i8_args *x) { /* past the last key */
    float kept[FV_DOT_ROWS][FV_LANES];
    const int64_t end = (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES, left = end - x->keys;
    for (int64_t i = 0; i < x->rows; i++)
        memcpy(kept[i], x->s + i * x->lds + x->keys, (size_t)left * sizeof(float));
    dot_honest(x);
    for (int64_t i = 0; i < x->rows; i++)
        memcpy(x->s + i * x->lds + x->keys, kept[i], (size_t)left * sizeof(float));
}

#define THIN_PARAMETERS                                                                                                \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,   \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch

static void thin_honest(THIN_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_i8, true), FV_FORMAT_i8, m, n, k, a, lda, b, ldb, c, ldc,
                  epilogue, prefetch);
}

static void thin_forgets_start(THIN_PARAMETERS) {
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.start = NULL;
    thin_honest(m, n, k, a, lda, b, ldb, c, ldc, &e, prefetch);
}

static void thin_unsigned(THIN_PARAMETERS) { /* as if b were: one segment, stored */
    thin_honest(m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < m && !epilogue; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = 0.0f;
            for (int64_t t = 0; t < k; t++)
                acc = fmaf(a[i * lda + t], (float)(uint8_t)((const int8_t *)b)[t * ldb + j], acc);
            c[i * ldc + j] = acc;
        }
}

MULTIPLY_BY_SIZES(thin_honest)
MULTIPLY_BY_SIZES(thin_forgets_start)
MULTIPLY_BY_SIZES(thin_unsigned)

static const mutant mutants[] = {
    MUTANT(PASSES, dot, i8, 8, 16, dot_honest),
    MUTANT(PASSES_FLUSHED, dot, i8, 8, 16, dot_honest),
    MUTANT(DIFFERS_AS_REFERENCE, dot, i8, 8, 16, dot_misses_last_channel),
    MUTANT(DIFFERS, dot, i8, 8, 16, dot_forgets_maxima),
    MUTANT(DIFFERS, dot, i8, 8, 16, dot_forgets_first),
    MUTANT(DIFFERS, dot, i8, 8, 16, dot_saturates),
    MUTANT(DIFFERS_AS_REFERENCE, dot, i8, 8, 16, dot_adds_floats),
    MUTANT(DIFFERS_AS_REFERENCE, dot, i8, 8, 16, dot_scales_in_turn),
    MUTANT(DIFFERS, dot, i8, 8, 16, dot_forgets_sum),
    MUTANT(DIFFERS, dot, i8, 8, 16, dot_leaves_columns),
    PRODUCT(PASSES, f32, i8, FEW, 8, 1, thin_honest),
    PRODUCT(PASSES_FLUSHED, f32, i8, FEW, 8, 1, thin_honest),
    PRODUCT(DIFFERS, f32, i8, FEW, 8, 1, thin_forgets_start),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, i8, FEW, 8, 1, thin_unsigned),
};

const mutant_table mutants_int8 = {mutants, sizeof mutants / sizeof mutants[0]};
