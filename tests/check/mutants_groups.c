/* Mutants of quantize, scales, expand, and unpack of integers in groups. */
#include "groups.h"
#include "mutants.h"

/* ------------------------------------------------------------------------------------------------------ quantize -- */

#define QUANTIZE                                                                                                       \
    int64_t rows, int64_t n, int64_t group, fv_kind kind, int most, const float *x, int64_t ldx, uint32_t *to

static void quantize_honest(QUANTIZE) {
    fv_kernel_scalar(FV_OP_quantize, FV_TYPE_i8)->run.quantize_i8(rows, n, group, kind, most, x, ldx, to);
}

/* Calls change() with each group that the honest kernel made. */
#define CHANGE fv_kind kind, int64_t n, int most, const float *x, fv_group_row *made
typedef void quantize_change(CHANGE);
static void quantize_changed(QUANTIZE, quantize_change *change) {
    quantize_honest(rows, n, group, kind, most, x, ldx, to);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            change(kind, count, most, x + i * ldx + t, (fv_group_row *)(void *)to);
            to += fv_group_row_words(kind, count);
        }
}

static void x_put(fv_kind kind, fv_group_row *row, int64_t t, int X) {
    row->sum += X - fv_group_x(kind, row, t);
    group_put(kind, row, t, X);
}

/* Integers of another rule: of scaled numbers. */
static void put_all(fv_kind kind, int64_t n, int most, const float *x, fv_group_row *made, float (*round)(float)) {
    float top = 0.0f;
    for (int64_t t = 0; t < n; t++)
        top = fabsf(x[t]) > top ? fabsf(x[t]) : top;
    for (int64_t t = 0; t < n && made->scale > 0.0f; t++) {
        const float X = round(x[t] * ((float)most / top));
        x_put(kind, made, t, (int)(X > (float)most ? (float)most : X < -(float)most ? -(float)most : X));
    }
}

static void misses_last(CHANGE) {
    (void)most, (void)x;
    x_put(kind, made, n - 1, 0);
}
static void ties_away(CHANGE) { put_all(kind, n, most, x, made, roundf); }
static void cuts(CHANGE) { put_all(kind, n, most, x, made, truncf); }
static void by_mode(CHANGE) { put_all(kind, n, most, x, made, nearbyintf); }
static void scale_by_factor(CHANGE) { /* not a quotient */
    (void)kind;
    float top = 0.0f;
    for (int64_t t = 0; t < n; t++)
        top = fabsf(x[t]) > top ? fabsf(x[t]) : top;
    made->scale = made->scale > 0.0f ? top * (1.0f / (float)most) : made->scale;
}
static void tiny_kept(CHANGE) { /* a group below 2^-112 */
    (void)kind;
    float top = 0.0f;
    for (int64_t t = 0; t < n; t++)
        top = fabsf(x[t]) > top ? fabsf(x[t]) : top;
    made->scale = made->scale == 0.0f ? top / (float)most : made->scale;
}
static void nan_lost(CHANGE) {
    (void)kind, (void)n, (void)most, (void)x;
    made->scale = float_is_nan(made->scale) ? 0.0f : made->scale;
}
static void no_sum(CHANGE) {
    (void)kind, (void)n, (void)most, (void)x;
    made->sum = 0;
}
static void low_unsigned(CHANGE) { /* high rounded down */
    (void)most, (void)x;
    for (int64_t t = 0; t < n && kind == FV_KIND_i8x2; t++) {
        const int X = fv_group_x(kind, made, t);
        ((int8_t *)made->word)[t / 16 * 32 + t % 16] = (int8_t)(X >> 7);
        ((int8_t *)made->word)[t / 16 * 32 + 16 + t % 16] = (int8_t)(X & 127);
    }
}
static void padding_left(CHANGE) {
    (void)most, (void)x;
    if (n % 16)
        group_put(kind, made, n, 1);
}

#define CHANGED(change)                                                                                                \
    static void quantize_##change(QUANTIZE) { quantize_changed(rows, n, group, kind, most, x, ldx, to, change); }
CHANGED(misses_last)
CHANGED(ties_away)
CHANGED(cuts)
CHANGED(by_mode)
CHANGED(scale_by_factor)
CHANGED(tiny_kept)
CHANGED(nan_lost)
CHANGED(no_sum)
CHANGED(low_unsigned)
CHANGED(padding_left)

static void quantize_one_group(QUANTIZE) { /* the first group's words again in the second */
    quantize_honest(rows, n, group, kind, most, x, ldx, to);
    if (n >= 2 * group)
        memcpy(to + fv_group_row_words(kind, group), to, (size_t)fv_group_row_words(kind, group) * sizeof *to);
}

/* -------------------------------------------------------------------------------------------------------- scales -- */

#define SCALES fv_scale_words words, const void *from, int64_t width, int64_t first, int64_t groups, float *to

static void scales_honest(SCALES) {
    fv_kernel_scalar(FV_OP_scales, FV_TYPE_f32)->run.scales_f32(words, from, width, first, groups, to);
}
static void scales_miss_last(SCALES) { scales_honest(words, from, width, first, groups - (groups > 1), to); }
static void scales_forget_first(SCALES) {
    (void)first;
    scales_honest(words, from, width, 0, groups, to);
}
static void scales_keep_signs(SCALES) { /* of minima of super-blocks */
    scales_honest(words, from, width, first, groups, to);
    for (int64_t g = 0; g < groups && words == FV_SCALES_super8; g++)
        for (int64_t j = 0; j < width; j++)
            to[(2 * g + 1) * width + j] = -to[(2 * g + 1) * width + j];
}
static void scales_unsigned(SCALES) { /* zeros */
    scales_honest(words, from, width, first, groups, to);
    for (int64_t g = 0; g < groups && fv_scales_extra(words) == FV_GROUP_zero; g++)
        for (int64_t j = 0; j < width; j++)
            to[(2 * g + 1) * width + j] = (float)(uint8_t)(int)to[(2 * g + 1) * width + j];
}
static void scales_by_next(SCALES) { /* the scale of the next column */
    scales_honest(words, from, width, first, groups, to);
    for (int64_t j = 0; j + 1 < width && words == FV_SCALES_super16; j++)
        to[j] = to[j + 1];
}

/* --------------------------------------------------------------------------------------------- expand and unpack -- */

#define EXPAND const fv_operand *b, uint32_t *y, int64_t ldy
#define UNPACKED const fv_operand *b, float *y, int64_t ldy

static void expand_honest(EXPAND) {
    const fv_type type = fv_format_of(b->format).element;
    fv_kernel_scalar(FV_OP_expand, type)->run.expand_i4(b, y, ldy);
}
static void expand_misses_last(EXPAND) {
    fv_operand k = *b;
    k.steps -= k.steps > 1;
    expand_honest(&k, y, ldy);
}
static void expand_forgets_zero(EXPAND) {
    fv_operand k = *b;
    k.group.extra = k.group.extra == FV_GROUP_plain ? FV_GROUP_minimum : k.group.extra;
    expand_honest(&k, y, ldy);
}
static void expand_forgets_first(EXPAND) {
    fv_operand k = *b;
    k.first = 0;
    expand_honest(&k, y, ldy);
}
/* Integers found by another rule. */
static void expand_by(const fv_operand *b, uint32_t *y, int64_t ldy,
                      int (*rule)(const fv_operand *, int64_t, int64_t)) {
    expand_honest(b, y, ldy);
    for (int64_t t = 0; t < b->steps; t++)
        for (int64_t j = 0; j < b->columns; j++)
            ((int8_t *)(y + t / 4 * ldy + j))[t % 4] += (int8_t)(rule(b, t, j) - fv_group_integer(b, t, j));
}
static int other_half(const fv_operand *b, int64_t t, int64_t j) { return fv_group_integer(b, t ^ 4, j); }
static int no_high_bits(const fv_operand *b, int64_t t, int64_t j) { return fv_group_integer(b, t, j) & 15; }
static void expand_swaps_halves(EXPAND) { expand_by(b, y, ldy, other_half); }
static void expand_drops_bits(EXPAND) { expand_by(b, y, ldy, no_high_bits); }

static void unpack_honest(UNPACKED) { honest_unpack(FV_FORMAT_i8g)(b, y, ldy); }
static void unpack_misses_last(UNPACKED) {
    fv_operand k = *b;
    k.steps -= k.steps > 1;
    unpack_honest(&k, y, ldy);
}
static void unpack_forgets_first(UNPACKED) {
    fv_operand k = *b;
    k.first = 0;
    unpack_honest(&k, y, ldy);
}
static void unpack_contracts(UNPACKED) {
    unpack_honest(b, y, ldy);
    for (int64_t t = 0; t < b->steps && b->group.extra == FV_GROUP_minimum; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float *scale = b->scales + t / b->group.steps * 2 * b->width + b->first + j;
            y[t * ldy + j] = fmaf(*scale, (float)fv_group_integer(b, t, j), scale[b->width]);
        }
}
static void unpack_multiplies_zero(UNPACKED) { /* scale * w - scale * zero */
    unpack_honest(b, y, ldy);
    for (int64_t t = 0; t < b->steps && b->group.extra == FV_GROUP_zero; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float *scale = b->scales + t / b->group.steps * 2 * b->width + b->first + j;
            const volatile float product = *scale * (float)fv_group_integer(b, t, j), zero = *scale * scale[b->width];
            y[t * ldy + j] = product - zero;
        }
}

static const mutant mutants[] = {
    MUTANT(PASSES, quantize, i8, 1, 1, quantize_honest),
    MUTANT(PASSES_FLUSHED, quantize, i8, 1, 1, quantize_honest),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_misses_last),
    MUTANT(DIFFERS_AS_REFERENCE, quantize, i8, 1, 1, quantize_ties_away),
    MUTANT(DIFFERS_AS_REFERENCE, quantize, i8, 1, 1, quantize_cuts),
    MUTANT(DIFFERS_AS_REFERENCE, quantize, i8, 1, 1, quantize_by_mode),
    MUTANT(DIFFERS_AS_REFERENCE, quantize, i8, 1, 1, quantize_scale_by_factor),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_tiny_kept),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_nan_lost),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_no_sum),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_low_unsigned),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_padding_left),
    MUTANT(DIFFERS, quantize, i8, 1, 1, quantize_one_group),
    MUTANT(PASSES, scales, f32, 1, 1, scales_honest),
    MUTANT(DIFFERS, scales, f32, 1, 1, scales_miss_last),
    MUTANT(DIFFERS, scales, f32, 1, 1, scales_forget_first),
    MUTANT(DIFFERS_AS_REFERENCE, scales, f32, 1, 1, scales_keep_signs),
    MUTANT(DIFFERS_AS_REFERENCE, scales, f32, 1, 1, scales_unsigned),
    MUTANT(DIFFERS, scales, f32, 1, 1, scales_by_next),
    MUTANT(PASSES, expand, i4, 1, 1, expand_honest),
    MUTANT(PASSES, expand, i5, 1, 1, expand_honest),
    MUTANT(PASSES, expand, i6, 1, 1, expand_honest),
    MUTANT(DIFFERS, expand, i4, 1, 1, expand_misses_last),
    MUTANT(DIFFERS, expand, i4, 1, 1, expand_forgets_zero),
    MUTANT(DIFFERS, expand, i5, 1, 1, expand_forgets_first),
    MUTANT(DIFFERS_AS_REFERENCE, expand, i4, 1, 1, expand_swaps_halves),
    MUTANT(DIFFERS_AS_REFERENCE, expand, i5, 1, 1, expand_drops_bits),
    MUTANT(DIFFERS_AS_REFERENCE, expand, i6, 1, 1, expand_drops_bits),
    UNPACK(PASSES, i8g, unpack_honest),
    UNPACK(DIFFERS, i8g, unpack_misses_last),
    UNPACK(DIFFERS, i8g, unpack_forgets_first),
    UNPACK(DIFFERS_AS_REFERENCE, i8g, unpack_contracts),
    UNPACK(DIFFERS_AS_REFERENCE, i8g, unpack_multiplies_zero),
};

const mutant_table mutants_groups = {mutants, sizeof mutants / sizeof mutants[0]};
