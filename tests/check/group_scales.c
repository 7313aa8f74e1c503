/* Trials of scales: those of groups of a panel, from each of their layouts. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_WORDS, SIZE_WIDTH, SIZE_FIRST, SIZE_GROUPS };
enum { OPERAND_FROM, OPERAND_TO };

static void scales_trial(checker *c, fv_scale_words words, int64_t width, int64_t first, int64_t groups) {
    trial *t = trial_begin(c, "layout %d width=%" PRId64 " first=%" PRId64 " groups=%" PRId64, (int)words, width, first,
                           groups);
    if (!t)
        return;
    const int64_t sizes[] = {words, width, first, groups}, row = fv_scales_row(fv_scales_extra(words), width);
    memcpy(t->size, sizes, sizeof sizes);
    const int64_t skipped = fv_scales_bytes(words, first, width) / 4,
                  elements = fv_scales_bytes(words, first + groups, width) / 4 - skipped;
    operand *from = trial_floats(t, "from", CELL_KEPT, 1, elements, elements);
    from->origin = skipped;
    for (int64_t i = 0; i < elements; i++) /* any bits: numbers of all sizes, and some that are none */
        *float_before(from, 0, i) = bits_float((uint32_t)(rng_u64(&t->rng) >> 7));
    trial_floats(t, "to", CELL_NAN, groups, row, row);
    trial_run(t);
}

static void scales_trials(checker *c) {
    static const int64_t widths[] = {16, 32, 48, 64, 80, 256};
    for (int words = 0; words < FV_SCALES_COUNT; words++)
        for (int w = 0; w < 6; w++)
            for (int64_t groups = 1; groups <= 34; groups += groups < 18 ? 1 : 7)
                scales_trial(c, (fv_scale_words)words, widths[w],
                             (groups + w) % 3 * fv_scales_per_super((fv_scale_words)words), groups);
}

static void scales_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.scales_f32((fv_scale_words)t->size[SIZE_WORDS], trial_pointer(t, OPERAND_FROM), t->size[SIZE_WIDTH],
                           t->size[SIZE_FIRST], t->size[SIZE_GROUPS], trial_pointer(t, OPERAND_TO));
}

static double f16_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* The j-th of a row of numbers of 16 or 32 bits. */
static double f16_at(const unsigned char *row, int64_t j) {
    uint16_t bits;
    memcpy(&bits, row + 2 * j, sizeof bits);
    return f16_value(bits);
}
static double wide_at(const unsigned char *row, int64_t j, bool half) {
    uint32_t bits = 0;
    uint16_t high;
    memcpy(&high, row + 2 * j, sizeof high);
    if (half)
        bits = (uint32_t)high << 16;
    else
        memcpy(&bits, row + 4 * j, sizeof bits);
    return (double)bits_float(bits);
}

/* Scale and extra of group g, counted from the first that was asked for, and column j; a double has every product. */
static void oracle(const trial *t, int64_t g, int64_t j, double *scale, double *extra) {
    const fv_scale_words words = (fv_scale_words)t->size[SIZE_WORDS];
    const unsigned char *at = t->operand[OPERAND_FROM].before;
    const int64_t w = t->size[SIZE_WIDTH];
    *extra = 0.0;
    switch (words) {
    case FV_SCALES_f32:
    case FV_SCALES_f32_zero:
        at += g * w * (words == FV_SCALES_f32 ? 4 : 5);
        *scale = wide_at(at, j, false);
        *extra = words == FV_SCALES_f32 ? 0 : ((const int8_t *)at)[4 * w + j];
        return;
    case FV_SCALES_bf16:
    case FV_SCALES_bf16_zero:
        at += g * w * (words == FV_SCALES_bf16 ? 2 : 3);
        *scale = wide_at(at, j, true);
        *extra = words == FV_SCALES_bf16 ? 0 : ((const int8_t *)at)[2 * w + j];
        return;
    case FV_SCALES_f16:
    case FV_SCALES_f16_zero:
        at += g * w * (words == FV_SCALES_f16 ? 2 : 3);
        *scale = f16_at(at, j);
        *extra = words == FV_SCALES_f16 ? 0 : ((const int8_t *)at)[2 * w + j];
        return;
    case FV_SCALES_f16_minimum:
        at += g * w * 4;
        *scale = f16_at(at, j);
        *extra = f16_at(at + 2 * w, j);
        return;
    case FV_SCALES_e8m0: *scale = at[g * w + j] == 255 ? (double)NAN : ldexp(1.0, at[g * w + j] - 128); return;
    case FV_SCALES_super8:
        at += g / 8 * w * (4 + 8 * 2);
        *scale = f16_at(at, j) * (at + 4 * w + g % 8 * 2 * w)[j];
        *extra = -(f16_at(at + 2 * w, j) * (at + 4 * w + g % 8 * 2 * w + w)[j]);
        return;
    default: at += g / 16 * w * (2 + 16); *scale = f16_at(at, j) * ((const int8_t *)(at + 2 * w + g % 16 * w))[j];
    }
}

static bool same(float got, double want) {
    return float_bits(got) == float_bits((float)want) || (float_is_nan(got) && isnan(want));
}

static void scales_verify(const trial *t) {
    const operand *to = &t->operand[OPERAND_TO];
    const int64_t w = t->size[SIZE_WIDTH];
    for (int64_t g = 0; g < to->rows; g++)
        for (int64_t j = 0; j < w; j++) {
            double scale, extra;
            oracle(t, g, j, &scale, &extra);
            const float got = float_want(to, g, j), beside = to->cols > w ? float_want(to, g, w + j) : 0.0f;
            if (!same(got, scale) || (to->cols > w && !same(beside, extra))) {
                trial_fail(t, "group %" PRId64 ", column %" PRId64 ": %.9g and %.9g instead of %.9g and %.9g", g, j,
                           (double)got, (double)beside, scale, extra);
                return;
            }
        }
}

const op_check check_group_scales = {scales_trials, scales_invoke, scales_verify};
