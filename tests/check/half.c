/* Trials of widen and narrow: bfloat16 and float16. */
#include "check.h"

#include <inttypes.h>

/* A type of 16 bits: the number of digits, the exponent of its least normal number, and of the first power of two
 * beyond it. */
typedef struct half_type {
    int digits, least, beyond;
} half_type;

static const half_type bf16 = {8, -126, 128}, f16 = {11, -14, 16};

static const half_type *type_of(const trial *t) { return t->checker->kernel->type == FV_TYPE_bf16 ? &bf16 : &f16; }

/* The number of those bits, by its definition; bits of no NaN. */
static double half_value(const half_type *type, uint16_t bits) {
    const int fraction = type->digits - 1, exponent = (bits & 0x7fff) >> fraction;
    const double unit = ldexp(1.0, type->least - fraction), low = bits & ((1 << fraction) - 1);
    const double value = exponent == 0                            ? low * unit
                         : exponent == (1 << (15 - fraction)) - 1 ? INFINITY
                                                                  : ldexp(low + (1 << fraction), exponent - 1) * unit;
    return bits & 0x8000 ? -value : value;
}

static bool half_is_nan(const half_type *type, uint16_t bits) {
    const int fraction = type->digits - 1, most = ((1 << (15 - fraction)) - 1) << fraction;
    return (bits & 0x7fff) > most;
}

/* Rounds by float64, which has digits to spare. */
static double half_rounded(const half_type *type, double x) {
    int exponent;
    if (x == 0 || isinf(x))
        return x;
    frexp(x, &exponent);
    const int last = (exponent - 1 < type->least ? type->least : exponent - 1) - (type->digits - 1);
    const double rounded = ldexp(nearbyint(ldexp(x, -last)), last);
    return fabs(rounded) >= ldexp(1.0, type->beyond) ? copysign(INFINITY, x) : rounded;
}

/* ------------------------------------------------------------------------------------------------------- trials -- */

static trial *half_begin(checker *c, int64_t rows, int64_t n) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64, rows, n);
    if (t) {
        t->size[0] = rows;
        t->size[1] = n;
    }
    return t;
}

static uint16_t *half_before(const operand *o, int64_t i, int64_t j) {
    return (uint16_t *)o->before + i * o->stride + j;
}

static void widen_trials(checker *c) {
    for (int64_t n = 1; n <= 2000; n += n < 2 * c->kernel->nr + 2 ? 1 : 331)
        for (int64_t rows = 1; rows <= 3; rows++) {
            trial *t = half_begin(c, rows, n);
            if (!t)
                continue;
            operand *x = trial_operand(t, "x", sizeof(uint16_t), CELL_KEPT, rows, n, some_stride(t, n));
            trial_floats(t, "y", CELL_BITS, rows, n, some_stride(t, n));
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < n; j++)
                    *half_before(x, i, j) = (uint16_t)rng_u64(&t->rng);
            trial_run(t);
        }
}

static void widen_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.widen_bf16(t->size[0], t->size[1], trial_pointer(t, 0), t->operand[0].stride, trial_pointer(t, 1),
                           t->operand[1].stride);
}

static void widen_verify(const trial *t) {
    const operand *x = &t->operand[0], *y = &t->operand[1];
    const half_type *type = type_of(t);
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            const uint16_t bits = *half_before(x, i, j);
            const float got = float_want(y, i, j);
            const uint32_t payload = (uint32_t)(bits & 0x7fff) << (24 - type->digits) & 0x7fffff;
            const uint32_t quiet = (uint32_t)(bits & 0x8000) << 16 | 0x7fc00000u | payload;
            const bool right = half_is_nan(type, bits)
                                   ? float_bits(got) == quiet
                                   : (double)got == half_value(type, bits) && !signbit(got) == !(bits & 0x8000);
            if (!right) {
                trial_fail(t, "%#x becomes %.9g (%#" PRIx32 ")", bits, (double)got, float_bits(got));
                return;
            }
        }
}

const op_check check_widen = {widen_trials, widen_invoke, widen_verify};

/* Numbers about the edges of the type: any bits; those that are a half of a last digit away, more or less; near the
 * least and the largest. */
static float hard_to_narrow(rng *r, const half_type *type) {
    const uint32_t any = (uint32_t)rng_u64(r);
    const int dropped = 24 - type->digits;
    const uint32_t tie = (any >> dropped << dropped | 1u << (dropped - 1)) + (uint32_t)rng_between(r, -1, 1);
    const int edges[] = {type->least - type->digits - 1,
                         type->least - type->digits,
                         type->least - 1,
                         type->least,
                         type->beyond - 1,
                         type->beyond};
    switch (rng_below(r, 4)) {
    case 0: return bits_float(any);
    case 1: return bits_float(tie);
    default:
        return ldexpf(1.0f + (float)(tie & 0x7fffff) * 0x1p-23f, edges[rng_below(r, 6)]) * (any & 1 ? -1.0f : 1.0f);
    }
}

static void narrow_trials(checker *c) {
    for (int64_t n = 1; n <= 2000; n += n < 2 * c->kernel->nr + 2 ? 1 : 331)
        for (int64_t rows = 1; rows <= 3; rows++) {
            trial *t = half_begin(c, rows, n);
            if (!t)
                continue;
            operand *x = trial_floats(t, "x", CELL_KEPT, rows, n, some_stride(t, n));
            trial_operand(t, "y", sizeof(uint16_t), CELL_BITS, rows, n, some_stride(t, n));
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < n; j++)
                    *float_before(x, i, j) = hard_to_narrow(&t->rng, type_of(t));
            trial_run(t);
        }
}

static void narrow_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.narrow_bf16(t->size[0], t->size[1], trial_pointer(t, 0), t->operand[0].stride, trial_pointer(t, 1),
                            t->operand[1].stride);
}

static void narrow_verify(const trial *t) {
    const operand *x = &t->operand[0], *y = &t->operand[1];
    const half_type *type = type_of(t);
    const int dropped = 24 - type->digits;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            const float from = *float_before(x, i, j);
            const uint32_t bits = float_bits(from);
            const uint16_t got = ((const uint16_t *)y->want)[i * y->stride + j];
            const uint32_t fraction = (bits | 0x400000u) >> dropped & ((1u << (type->digits - 1)) - 1);
            const bool right = float_is_nan(from)
                                   ? half_is_nan(type, got) && (got & ((1u << (type->digits - 1)) - 1)) == fraction
                                   : !half_is_nan(type, got) && half_value(type, got) == half_rounded(type, from);
            if (!right || (got ^ bits >> 16) & 0x8000) {
                trial_fail(t, "%.9g (%#" PRIx32 ") becomes %#x", (double)from, bits, got);
                return;
            }
        }
}

const op_check check_narrow = {narrow_trials, narrow_invoke, narrow_verify};
