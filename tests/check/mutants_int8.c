/* Mutants of products with int8 keys and values. */
#include "mutants.h"

#include "multiply_call.h"

#include <string.h>

static void keys_honest(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                        const fv_prefetch *prefetch) {
    honest_product(FV_KIND_i16, FV_FORMAT_i8x4, true)(a, b, c, ldc, epilogue, prefetch);
}

static void keys_miss_last_channel(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                   const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    fv_operand k = *b;
    k.steps -= k.steps > 1 && k.steps % 4 == 1;
    keys_honest(a, &k, c, ldc, epilogue, prefetch);
}

static void keys_forget_maxima(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, const fv_prefetch *prefetch) { /* of the keys before */
    fv_epilogue e = *epilogue;
    e.accumulate_max = 0;
    keys_honest(a, b, c, ldc, &e, prefetch);
}

static void keys_forget_first(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                              const fv_prefetch *prefetch) { /* keys as if the first began a panel */
    fv_operand k = *b;
    k.first = 0;
    keys_honest(a, &k, c, ldc, epilogue, prefetch);
}

static int32_t q_of(const fv_rows *a, int64_t i, int64_t t) {
    const fv_i8_word *word = fv_i8_row_of(a, i)->word + t / 4;
    return 128 * word->high[t % 4] + word->low[t % 4];
}

static int32_t k_of(const fv_operand *b, int64_t j, int64_t t) {
    return ((const int8_t *)b->data)[fv_operand_place(b, t, j)];
}

static float scales_of(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) {
    return fv_i8_row_of(a, i)->scale * b->scales[j];
}

typedef float score_fn(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j);

/* Scores of another formula, columns past the keys by the honest one. */
static void keys_by(score_fn *score, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                    const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    keys_honest(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count && !epilogue->row_max; i++)
        for (int64_t j = 0; j < b->columns; j++)
            c[i * ldc + j] = score(a, b, i, j);
}

static float saturated(const fv_rows *a, const fv_operand *b, int64_t i,
                       int64_t j) { /* pairs, as VPMADDUBSW adds them */
    int32_t sum = 0;
    for (int64_t t = 0; t < b->steps; t += 2) {
        int32_t low = 0, high = 0;
        for (int64_t u = t; u < t + 2 && u < b->steps; u++) {
            const int32_t k = k_of(b, j, u) + 128, q = q_of(a, i, u), top = (q + 64) >> 7;
            high += k * top;
            low += k * (q - 128 * top);
        }
        sum += 128 * (high > INT16_MAX ? INT16_MAX : high < INT16_MIN ? INT16_MIN : high) + low;
    }
    return (float)(sum - 128 * fv_i8_row_of(a, i)->sum) * scales_of(a, b, i, j);
}

static void keys_saturate(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                          const fv_prefetch *prefetch) {
    keys_by(saturated, a, b, c, ldc, epilogue, prefetch);
}

static float in_float(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) { /* a chain of float32 */
    float sum = 0.0f;
    for (int64_t t = 0; t < b->steps; t++)
        sum += (float)(q_of(a, i, t) * k_of(b, j, t));
    return sum * scales_of(a, b, i, j);
}

static void keys_add_floats(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch) {
    keys_by(in_float, a, b, c, ldc, epilogue, prefetch);
}

static int32_t exact(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) {
    int32_t sum = 0;
    for (int64_t t = 0; t < b->steps; t++)
        sum += q_of(a, i, t) * k_of(b, j, t);
    return sum;
}

static float one_by_one(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) { /* the scales */
    return (float)exact(a, b, i, j) * fv_i8_row_of(a, i)->scale * b->scales[j];
}

static void keys_scale_in_turn(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    keys_by(one_by_one, a, b, c, ldc, epilogue, prefetch);
}

static float without_sum(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) {
    return (float)(exact(a, b, i, j) + 128 * fv_i8_row_of(a, i)->sum) * scales_of(a, b, i, j);
}

static void keys_forget_sum(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch) {
    keys_by(without_sum, a, b, c, ldc, epilogue, prefetch);
}

static void keys_leave_columns(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, const fv_prefetch *prefetch) { /* past the last key */
    float kept[FV_FEW_ROWS][FV_LANES];
    const int64_t end = (b->columns + FV_LANES - 1) / FV_LANES * FV_LANES, left = end - b->columns;
    for (int64_t i = 0; i < a->count; i++)
        memcpy(kept[i], c + i * ldc + b->columns, (size_t)left * sizeof(float));
    keys_honest(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count; i++)
        memcpy(c + i * ldc + b->columns, kept[i], (size_t)left * sizeof(float));
}

#define PRODUCT_PARAMETERS                                                                                             \
    const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,                         \
        const fv_prefetch *prefetch

static void few_honest_row(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_i8, true)(a, b, c, ldc, epilogue, prefetch);
}

static void few_forgets_start_row(PRODUCT_PARAMETERS) {
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.start = NULL;
    few_honest_row(a, b, c, ldc, &e, prefetch);
}

static void few_forgets_scales_row(PRODUCT_PARAMETERS) {
    fv_operand bare = *b;
    bare.scales = NULL;
    few_honest_row(a, &bare, c, ldc, epilogue, prefetch);
}

static void few_scales_hidden_row(PRODUCT_PARAMETERS) { /* weights of -0 are 0 to it */
    float weights[FV_FEW_ROWS][FV_SEGMENT];
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t t = 0; t < b->steps; t++) {
            const float weight = ((const float *)a->data)[i * a->stride + t];
            weights[i][t] = b->scales && weight == 0.0f ? 0.0f : weight;
        }
    few_honest_row(&(fv_rows){weights, a->count, FV_SEGMENT}, b, c, ldc, epilogue, prefetch);
}

static void few_unsigned_row(PRODUCT_PARAMETERS) { /* as if b were: one segment, stored */
    few_honest_row(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count && !epilogue && !b->scales; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = fmaf(((const float *)a->data)[i * a->stride + t],
                           (float)((const uint8_t *)b->data)[t * b->row + j], acc);
            c[i * ldc + j] = acc;
        }
}

#define KEYS(fate, function) PRODUCT_ROW(fate, i16, i8x4, FEW, 8, 16, function)
static const mutant mutants[] = {
    KEYS(PASSES, keys_honest),
    KEYS(PASSES_FLUSHED, keys_honest),
    KEYS(DIFFERS_AS_REFERENCE, keys_miss_last_channel),
    KEYS(DIFFERS, keys_forget_maxima),
    KEYS(DIFFERS, keys_forget_first),
    KEYS(DIFFERS, keys_saturate),
    KEYS(DIFFERS_AS_REFERENCE, keys_add_floats),
    KEYS(DIFFERS_AS_REFERENCE, keys_scale_in_turn),
    KEYS(DIFFERS, keys_forget_sum),
    KEYS(DIFFERS, keys_leave_columns),
    PRODUCT(PASSES, f32, i8, FEW, 8, 1, few_honest),
    PRODUCT(PASSES_FLUSHED, f32, i8, FEW, 8, 1, few_honest),
    PRODUCT(DIFFERS, f32, i8, FEW, 8, 1, few_forgets_start),
    PRODUCT(DIFFERS, f32, i8, FEW, 8, 1, few_forgets_scales),
    PRODUCT(DIFFERS, f32, i8, FEW, 8, 1, few_scales_hidden),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, i8, FEW, 8, 1, few_unsigned),
};

const mutant_table mutants_int8 = {mutants, sizeof mutants / sizeof mutants[0]};
