/* Trials of products of many rows of floats and a B that is widened: bf16x2, f16 and i8_columns. */
#include "check.h"

#include "multiply_call.h"

#include <inttypes.h>

enum { SIZE_M, SIZE_N, SIZE_K, SIZE_ACCUMULATE, SIZE_MAXIMA, SIZE_FIRST };
enum { WIDTH = 2 * FV_LANES, PANEL = WIDTH + FV_LANES }; /* of panels, and words to the next, in some trials */
enum { OPERAND_A, OPERAND_B, OPERAND_C, OPERAND_SCALES, OPERAND_ROW_MAX };
enum { MAXIMA_NONE, MAXIMA_NEW, MAXIMA_RAISED, MAXIMA };

static bool of_pairs(const trial *t) { return t->checker->kernel->type == FV_TYPE_bf16; }
static bool of_int8(const trial *t) { return t->checker->kernel->type == FV_TYPE_i8; }

/* An element of 16 bits: a number from 2^-8 to 2^7, or any bits. */
static uint16_t some_element(trial *t, bool any) {
    const uint32_t bits = (uint32_t)rng_u64(&t->rng), exponent = bits >> 16 & 15;
    if (any && rng_below(&t->rng, 8) == 0)
        return (uint16_t)bits;
    return (uint16_t)(of_pairs(t) ? (bits & 0x807f) | (119 + exponent) << 7 : (bits & 0x83ff) | (7 + exponent) << 10);
}

/* The column of the operand b that holds column j, where columns are in panels. */
static int64_t place_of(const trial *t, int64_t j) {
    const int64_t first = t->size[SIZE_FIRST], p = first + j;
    return first < 0 ? j : p / WIDTH * PANEL + p % WIDTH;
}

static void fill_weights(trial *t, operand *b, int64_t k, bool any) {
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            const uint16_t first = some_element(t, any), second = some_element(t, any);
            if (of_int8(t))
                ((int8_t *)b->before)[i * b->stride + j] = (int8_t)rng_u64(&t->rng);
            else if (of_pairs(t)) /* what has no place in the chain is a NaN */
                *float_before(b, i, j) = bits_float((uint32_t)first << 16 | (2 * i + 1 < k ? second : 0x7fc0));
            else
                ((uint16_t *)b->before)[i * b->stride + j] = first;
        }
}

static void widen_trial(checker *c, int64_t m, int64_t n, int64_t k, bool accumulate, bool any) {
    trial *t = trial_begin(c, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 "%s%s", m, n, k,
                           accumulate ? ", carried on" : "", any ? ", any bits" : "");
    if (!t)
        return;
    t->size[SIZE_M] = m;
    t->size[SIZE_N] = n;
    t->size[SIZE_K] = k;
    t->size[SIZE_ACCUMULATE] = accumulate;
    t->size[SIZE_MAXIMA] = (m + n / FV_LANES + k) % MAXIMA;
    t->size[SIZE_FIRST] = (m + k) % 3 == 0 ? -1 : (m + k) % 3 == 1 ? 0 : FV_LANES;
    const int64_t places = place_of(t, n - 1) + 1;
    operand *a = trial_floats(t, "a", CELL_KEPT, m, k, some_stride(t, k));
    operand *b = of_pairs(t) ? trial_floats(t, "b", CELL_KEPT, (k + 1) / 2, places, some_stride(t, places))
                             : trial_operand(t, "b", of_int8(t) ? 1 : sizeof(uint16_t), CELL_KEPT, k, places,
                                             some_stride(t, places));
    operand *out = trial_floats(t, "c", CELL_NAN, m, n, some_stride(t, n));
    operand *scales = trial_floats(t, "scales", CELL_KEPT, of_int8(t), n, n);
    operand *row_max = trial_floats(t, "row_max", CELL_ZERO, m, FV_LANES, FV_LANES);
    fill_normal(t, scales);
    for (int64_t i = 0; i < m; i++)
        for (int64_t lane = 0; lane < FV_LANES; lane++)
            *float_before(row_max, i, lane) = rng_below(&t->rng, 2) ? -INFINITY : rng_normal(&t->rng);
    if (any)
        sprinkle_specials(t, scales, 16);
    fill_normal(t, a);
    fill_weights(t, b, k, any);
    if (any)
        sprinkle_specials(t, a, 4 * k);
    if (accumulate)
        fill_normal(t, out);
    trial_run(t);
}

static void widen_trials(checker *c) {
    static const int64_t some_k[] = {1, 2, 3, 7, 8, 9, 16, 31, 64, 129};
    enum { SOME_K = sizeof some_k / sizeof some_k[0] };
    for (int64_t m = 1; m <= 2 * c->kernel->mr + 2; m++)
        for (int64_t n = FV_LANES; n <= c->kernel->nr + FV_LANES; n += FV_LANES)
            for (int i = 0; i < SOME_K; i++) {
                widen_trial(c, m, n, some_k[i], (m + i) % 2, false);
                widen_trial(c, m, n, some_k[i], (m + i) % 3 == 0, true);
            }
    widen_trial(c, 20, 4 * FV_LANES, 1001, false, false);
    widen_trial(c, 3, 9 * FV_LANES, 500, true, false);
}

static void widen_invoke(const fv_kernel *kernel, trial *t) {
    const operand *o = t->operand;
    const int64_t m = t->size[SIZE_M], n = t->size[SIZE_N], k = t->size[SIZE_K];
    const int64_t first = t->size[SIZE_FIRST], size = o[OPERAND_B].size;
    const char *b = (const char *)trial_pointer(t, OPERAND_B) + (first > 0 ? first * size : 0);
    const bool next = k % 3 != 0;
    const fv_prefetch prefetch = {.streams = m % 2, .next = next ? b : NULL, .next_end = next ? b + k * n : NULL};
    float *c = trial_pointer(t, OPERAND_C);
    const fv_epilogue epilogue = {.start = t->size[SIZE_ACCUMULATE] ? c : NULL,
                                  .ldstart = o[OPERAND_C].stride,
                                  .row_max = t->size[SIZE_MAXIMA] ? trial_pointer(t, OPERAND_ROW_MAX) : NULL,
                                  .accumulate_max = t->size[SIZE_MAXIMA] == MAXIMA_RAISED};
    const fv_rows a = {trial_pointer(t, OPERAND_A), m, o[OPERAND_A].stride};
    fv_operand weights = operand_of(kernel->format, n, k, b, o[OPERAND_B].stride);
    weights.first = (int16_t)(first > 0 ? first : 0);
    weights.width = first < 0 ? 0 : WIDTH;
    weights.panel = PANEL;
    weights.scales = of_int8(t) ? trial_pointer(t, OPERAND_SCALES) : NULL;
    kernel->run.multiply(&a, &weights, c, o[OPERAND_C].stride,
                         epilogue.start || epilogue.row_max || m % 2 ? &epilogue : NULL, k % 4 == 0 ? NULL : &prefetch);
}

static double weight_of(const trial *t, int64_t p, int64_t j) {
    const operand *b = &t->operand[OPERAND_B];
    if (of_pairs(t)) {
        const uint32_t word = float_bits(*float_before(b, p / 2, place_of(t, j)));
        return (double)bits_float(p % 2 ? word << 16 : word & 0xffff0000u);
    }
    if (of_int8(t)) {
        volatile float rounded = *float_before(&t->operand[OPERAND_SCALES], 0, j) *
                                 (float)((const int8_t *)b->before)[p * b->stride + place_of(t, j)];
        return (double)rounded;
    }
    const uint16_t bits = ((const uint16_t *)b->before)[p * b->stride + place_of(t, j)];
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void widen_verify(const trial *t) {
    const operand *a = &t->operand[OPERAND_A], *c = &t->operand[OPERAND_C];
    const int64_t k = t->size[SIZE_K];
    const operand *row_max = &t->operand[OPERAND_ROW_MAX];
    for (int64_t i = 0; i < c->rows; i++) {
        float highest = -INFINITY, found = -INFINITY;
        for (int64_t j = 0; j < c->cols; j++) {
            float acc = t->size[SIZE_ACCUMULATE] ? *float_before(c, i, j) : 0.0f;
            double sum = (double)acc, magnitude = fabs(sum);
            for (int64_t p = 0; p < k; p++) {
                const double x = (double)*float_before(a, i, p), y = weight_of(t, p, j);
                acc = fmaf((float)x, (float)y, acc);
                sum += x * y;
                magnitude += fabs(x * y);
            }
            const float got = float_want(c, i, j);
            const bool equal = float_bits(got) == float_bits(acc) || (float_is_nan(got) && float_is_nan(acc));
            const double bound = (double)(k + 2) * (float_eps() * magnitude + 0x1p-149);
            if (!equal || (magnitude < 0x1p127 && !near_double(got, sum, bound))) {
                trial_fail(t, "c[%" PRId64 "][%" PRId64 "] is %.9g, the chain of kernels.h gives %.9g, float64 %.17g",
                           i, j, (double)got, (double)acc, sum);
                return;
            }
            highest = got > highest ? got : highest;
        }
        for (int64_t lane = 0; lane < FV_LANES; lane++) {
            const float before = *float_before(row_max, i, lane), after = float_want(row_max, i, lane);
            highest = t->size[SIZE_MAXIMA] == MAXIMA_RAISED && before > highest ? before : highest;
            found = after > found || float_is_nan(after) ? after : found;
        }
        if (t->size[SIZE_MAXIMA] && found != highest) {
            trial_fail(t, "row %" PRId64 "'s maximum is %.9g instead of %.9g", i, (double)found, (double)highest);
            return;
        }
    }
}

const op_check check_multiply_widen = {widen_trials, widen_invoke, widen_verify};
