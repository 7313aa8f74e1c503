/* Mutants of integers in groups: quantize, scales, expand, unpack, and products, which are the formulas of
 * kernels/groups.h, each with one fault. */
#include "groups.h"
#include "mutants.h"

typedef enum groups_flaw {
    HONEST,
    TIES_AWAY,
    CUTS,
    BY_MODE,
    SCALE_BY_FACTOR, /* not a quotient */
    TINY_KEPT,       /* a group below 2^-112 */
    NAN_LOST,
    LOW_UNSIGNED,   /* high rounded down */
    PADDING_LEFT,   /* of the last words */
    KEEPS_SIGNS,    /* of minima of super-blocks */
    ZERO_UNSIGNED,  /* zeros as bytes without sign */
    SWAPPED_HALVES, /* of words of 4 bits */
    DROPS_BITS,     /* the high ones */
    CONTRACTS,
    MULTIPLIES_ZERO, /* scale * w - scale * zero */
    SATURATES,       /* pairs, by VPMADDUBSW */
    HIGH_UNSIGNED,
    IN_FLOAT,
    SIXTEEN_BITS,
    NEXT_SCALE,
    FIRST_SUM,
    NO_MINIMUM,
    MINIMUM_SUBTRACTED,
    MINIMUM_CONTRACTED,
    ZERO_CONSTANT,
    ZERO_OF_FIRST,
    SCALES_IN_TURN,
    DESCENDING
} groups_flaw;

/* ------------------------------------------------------------------------------------------------------ quantize -- */

static float largest(const float *x, int64_t n) {
    float top = 0.0f;
    for (int64_t t = 0; t < n; t++)
        top = fabsf(x[t]) > top ? fabsf(x[t]) : top;
    return top;
}

/* Integers of another rule: of scaled numbers. */
static void put_all(fv_kind kind, int64_t n, int most, const float *x, fv_group_row *made) {
    const float top = largest(x, n);
    for (int64_t t = 0; t < n && made->scale > 0.0f; t++) {
        const float scaled = x[t] * ((float)most / top);
        const float X = flaw == TIES_AWAY ? roundf(scaled) : flaw == CUTS ? truncf(scaled) : nearbyintf(scaled);
        const int put = (int)(X > (float)most ? (float)most : X < -(float)most ? -(float)most : X);
        made->sum += put - fv_group_x(kind, made, t);
        group_put(kind, made, t, put);
    }
}

static void change_group(fv_kind kind, int64_t n, int most, const float *x, fv_group_row *made) {
    switch (flaw) {
    case TIES_AWAY:
    case CUTS:
    case BY_MODE: put_all(kind, n, most, x, made); break;
    case SCALE_BY_FACTOR: made->scale = made->scale > 0.0f ? largest(x, n) * (1.0f / (float)most) : made->scale; break;
    case TINY_KEPT: made->scale = made->scale == 0.0f ? largest(x, n) / (float)most : made->scale; break;
    case NAN_LOST: made->scale = float_is_nan(made->scale) ? 0.0f : made->scale; break;
    case PADDING_LEFT:
        if (n % 16)
            group_put(kind, made, n, 1);
        break;
    case LOW_UNSIGNED:
        for (int64_t t = 0; t < n && kind == FV_KIND_i8x2; t++) {
            const int X = fv_group_x(kind, made, t);
            ((int8_t *)made->word)[t / 16 * 32 + t % 16] = (int8_t)(X >> 7);
            ((int8_t *)made->word)[t / 16 * 32 + 16 + t % 16] = (int8_t)(X & 127);
        }
        break;
    default: break;
    }
}

static void quantize(int64_t rows, int64_t n, int64_t group, fv_kind kind, int most, const float *x, int64_t ldx,
                     uint32_t *to) {
    fv_kernel_scalar(FV_OP_quantize, FV_TYPE_i8)->run.quantize_i8(rows, n, group, kind, most, x, ldx, to);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            change_group(kind, count, most, x + i * ldx + t, (fv_group_row *)(void *)to);
            to += fv_group_row_words(kind, count);
        }
}

/* --------------------------------------------------------------------------------------- scales, expand, unpack -- */

static void scales(fv_scale_words words, const void *from, int64_t width, int64_t first, int64_t groups, float *to) {
    honest(FV_OP_scales)->run.scales_f32(words, from, width, first, groups, to);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t j = 0; j < width; j++) {
            float *extra = &to[(2 * g + 1) * width + j];
            if (flaw == KEEPS_SIGNS && words == FV_SCALES_super8)
                *extra = -*extra;
            if (flaw == ZERO_UNSIGNED && fv_scales_extra(words) == FV_GROUP_zero)
                *extra = (float)(uint8_t)(int)*extra;
        }
}

static void expand(const fv_operand *b, uint32_t *y, int64_t ldy) {
    fv_kernel_scalar(FV_OP_expand, fv_format_of(b->format).element)->run.expand_i4(b, y, ldy);
    for (int64_t t = 0; t < b->steps && flaw != HONEST; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const int w = fv_group_integer(b, t, j);
            const int other = flaw == SWAPPED_HALVES ? fv_group_integer(b, t ^ 4, j) : w & 15;
            ((int8_t *)(y + t / 4 * ldy + j))[t % 4] += (int8_t)(other - w);
        }
}

static void unpack(const fv_operand *b, float *y, int64_t ldy) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    honest_unpack(FV_FORMAT_i8g)(b, y, ldy);
    for (int64_t t = 0; t < b->steps && flaw != HONEST; t++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float *scale = b->scales + t / b->group.steps * 2 * b->width + b->first + j;
            const float w = (float)fv_group_integer(b, t, j);
            if (flaw == CONTRACTS && extra == FV_GROUP_minimum)
                y[t * ldy + j] = fmaf(*scale, w, scale[b->width]);
            if (flaw == MULTIPLIES_ZERO && extra == FV_GROUP_zero) {
                const volatile float product = *scale * w, zero = *scale * scale[b->width];
                y[t * ldy + j] = product - zero;
            }
        }
}

/* ------------------------------------------------------------------------------------------------------ products -- */

static int high_of(int X) { return (X + 64) >> 7; }

static int saturated(int sum) { return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum; }

/* Two products by VPMADDUBSW: of the high planes with w + 128, less 128 times the plane. */
static int pair(fv_kind kind, const fv_group_row *row, int64_t t, const int *w) {
    int high = 0, low = 0, less = 0;
    for (int u = 0; u < 2; u++) {
        const int X = fv_group_x(kind, row, t + u), top = high_of(X);
        high += (w[u] + 128) * top;
        low += w[u] * (X - 128 * top);
        less += 128 * top;
    }
    return 128 * (saturated(high) - less) + low;
}

static int sum_of(fv_kind kind, const fv_group_row *row, const fv_operand *b, int64_t begin, int64_t count, int64_t j,
                  int zero) {
    int sum = 0;
    float floats = 0.0f;
    for (int64_t s = 0; s < count; s += flaw == SATURATES ? 2 : 1) {
        int w[2] = {0, 0}, X = fv_group_x(kind, row, s);
        for (int u = 0; u < 2 && s + u < count; u++)
            w[u] = fv_group_integer(b, flaw == SWAPPED_HALVES ? (begin + s + u) ^ 4 : begin + s + u, j) - zero;
        X += flaw == HIGH_UNSIGNED ? 128 * ((uint8_t)high_of(X) - high_of(X)) : 0;
        const int term = flaw == SATURATES ? pair(kind, row, s, w) : X * w[0];
        sum += flaw == SIXTEEN_BITS ? (int16_t)term : term;
        floats += (float)term;
    }
    return flaw == IN_FLOAT ? (int)floats : sum;
}

static float chain(fv_kind kind, const fv_rows *a, const fv_operand *b, int64_t i, int64_t j, float acc) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales_row = fv_scales_row(extra, b->width),
                  groups = (b->steps + group - 1) / group;
    const uint32_t *const row = (const uint32_t *)a->data + i * a->stride;
    for (int64_t n = 0; n < groups; n++) {
        const int64_t g = flaw == DESCENDING ? groups - 1 - n : n, left = b->steps - g * group;
        const fv_group_row *x = (const fv_group_row *)(const void *)(row + g * fv_group_row_words(kind, group));
        const float *own = b->scales + b->first + j + g * scales_row,
                    *scale = flaw == NEXT_SCALE && g + 1 < groups ? own + scales_row : own,
                    *more = flaw == ZERO_OF_FIRST ? b->scales + b->first + j + b->width : own + b->width;
        const int zero = extra != FV_GROUP_zero  ? fv_group_zero(b->format, extra)
                         : flaw == ZERO_CONSTANT ? fv_group_zero(b->format, FV_GROUP_plain)
                                                 : (int)*more;
        const float sum = (float)sum_of(kind, x, b, g * group, left < group ? left : group, j, zero);
        acc = flaw == SCALES_IN_TURN ? fmaf(sum * *scale, x->scale, acc) : fmaf(sum, *scale * x->scale, acc);
        if (extra == FV_GROUP_minimum && flaw != NO_MINIMUM) {
            const fv_group_row *summed = flaw == FIRST_SUM ? (const fv_group_row *)(const void *)row : x;
            const float minimum = flaw == MINIMUM_SUBTRACTED ? -*more : *more, total = (float)summed->sum;
            acc = flaw == MINIMUM_CONTRACTED ? fmaf(total * minimum, x->scale, acc)
                                             : fmaf(total, minimum * x->scale, acc);
        }
    }
    return acc;
}

static void product(fv_kind kind, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                    const fv_epilogue *epilogue) {
    const float *start = epilogue ? epilogue->start : NULL;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < b->columns; j++)
            c[i * ldc + j] = chain(kind, a, b, i, j, start ? start[i * epilogue->ldstart + j] : 0.0f);
}

#define PRODUCT_OF(kind)                                                                                               \
    static void product_##kind(PRODUCT_PARAMETERS) {                                                                   \
        (void)prefetch;                                                                                                \
        product(FV_KIND_##kind, a, b, c, ldc, epilogue);                                                               \
    }
PRODUCT_OF(i16)
PRODUCT_OF(i8)
PRODUCT_OF(i8x2)

#define MANY_OF(fate, flaw, kind) PRODUCT(fate, flaw, kind, i8g, MANY, 4, 16, product_##kind)
#define FEW_OF(fate, flaw, kind, format) PRODUCT(fate, flaw, kind, format, FEW, 8, 16, product_##kind)
static const mutant mutants[] = {
    MUTANT(PASSES_FLUSHED, HONEST, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS_AS_REFERENCE, TIES_AWAY, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS_AS_REFERENCE, CUTS, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS_AS_REFERENCE, BY_MODE, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS_AS_REFERENCE, SCALE_BY_FACTOR, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS, TINY_KEPT, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS, NAN_LOST, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS, LOW_UNSIGNED, quantize, i8, 1, 1, quantize),
    MUTANT(DIFFERS, PADDING_LEFT, quantize, i8, 1, 1, quantize),
    MUTANT(PASSES, HONEST, scales, f32, 1, 1, scales),
    MUTANT(DIFFERS_AS_REFERENCE, KEEPS_SIGNS, scales, f32, 1, 1, scales),
    MUTANT(DIFFERS_AS_REFERENCE, ZERO_UNSIGNED, scales, f32, 1, 1, scales),
    MUTANT(PASSES, HONEST, expand, i4, 1, 1, expand),
    MUTANT(DIFFERS_AS_REFERENCE, SWAPPED_HALVES, expand, i4, 1, 1, expand),
    MUTANT(DIFFERS_AS_REFERENCE, DROPS_BITS, expand, i5, 1, 1, expand),
    MUTANT(DIFFERS_AS_REFERENCE, DROPS_BITS, expand, i6, 1, 1, expand),
    UNPACK(PASSES, HONEST, i8g, unpack),
    UNPACK(DIFFERS_AS_REFERENCE, CONTRACTS, i8g, unpack),
    UNPACK(DIFFERS_AS_REFERENCE, MULTIPLIES_ZERO, i8g, unpack),
    MANY_OF(PASSES_FLUSHED, HONEST, i16),
    MANY_OF(DIFFERS, SATURATES, i16),
    MANY_OF(DIFFERS, HIGH_UNSIGNED, i16),
    MANY_OF(DIFFERS, IN_FLOAT, i16),
    MANY_OF(DIFFERS, SIXTEEN_BITS, i16),
    MANY_OF(DIFFERS, NEXT_SCALE, i16),
    MANY_OF(DIFFERS, ZERO_CONSTANT, i16),
    MANY_OF(DIFFERS_AS_REFERENCE, SCALES_IN_TURN, i16),
    MANY_OF(PASSES, HONEST, i8x2),
    MANY_OF(DIFFERS, HIGH_UNSIGNED, i8x2),
    MANY_OF(PASSES, HONEST, i8),
    MANY_OF(DIFFERS, ZERO_CONSTANT, i8),
    MANY_OF(DIFFERS, FIRST_SUM, i8),
    MANY_OF(DIFFERS_AS_REFERENCE, DESCENDING, i8),
    FEW_OF(PASSES, HONEST, i8x2, i8g),
    FEW_OF(DIFFERS, SATURATES, i8x2, i8g),
    FEW_OF(DIFFERS, ZERO_OF_FIRST, i8x2, i8g),
    FEW_OF(PASSES_FLUSHED, HONEST, i8x2, i4g),
    FEW_OF(DIFFERS, SWAPPED_HALVES, i8x2, i4g),
    FEW_OF(DIFFERS, ZERO_CONSTANT, i8x2, i4g),
    FEW_OF(DIFFERS, NEXT_SCALE, i8x2, i4g),
    FEW_OF(DIFFERS, SIXTEEN_BITS, i8x2, i4g),
    FEW_OF(DIFFERS_AS_REFERENCE, IN_FLOAT, i8x2, i4g),
    FEW_OF(DIFFERS, NO_MINIMUM, i8x2, i5g),
    FEW_OF(DIFFERS, MINIMUM_SUBTRACTED, i8x2, i5g),
    FEW_OF(DIFFERS, FIRST_SUM, i8x2, i5g),
    FEW_OF(DIFFERS, SWAPPED_HALVES, i8x2, i5g),
    FEW_OF(DIFFERS_AS_REFERENCE, MINIMUM_CONTRACTED, i8x2, i5g),
    FEW_OF(PASSES, HONEST, i8x2, i6g),
    FEW_OF(DIFFERS_AS_REFERENCE, DESCENDING, i8x2, i6g),
    FEW_OF(PASSES, HONEST, i16, i8g),
    FEW_OF(DIFFERS, SATURATES, i16, i8g),
    FEW_OF(DIFFERS, SIXTEEN_BITS, i16, i6g),
};

const mutant_table mutants_groups = {mutants, sizeof mutants / sizeof mutants[0]};
