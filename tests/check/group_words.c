/* Trials of what reads packed integers in groups back: expand, to words of i8g, and unpack of i8g, to numbers. */
#include "groups.h"

#include <fenv.h>
#include <inttypes.h>

enum { OPERAND_Y = GROUP_OPERANDS };

/* Each trial of both operations; result adds its operand. */
static void group_words_trials(checker *c, void (*result)(trial *t)) {
    static const group_shape more[] = {{300, 1024}, {1024, 1024}, {520, 512}};
    int64_t widths[GROUP_WIDTHS];
    const int count = group_widths(c->kernel->nr, widths);
    for (int s = 0; s < GROUP_SHAPES + 3; s++)
        for (int w = 0; w < count; w++)
            for (int extra = 0; extra < 3; extra++) {
                const group_kind kind = (group_kind)((s + w + extra) % GROUP_KINDS);
                trial *t = group_trial(c, s < GROUP_SHAPES ? group_shapes[s] : more[s - GROUP_SHAPES], widths[w],
                                       (fv_group_extra)extra, kind, s + 5 * w + extra, 1);
                if (t)
                    result(t);
            }
}

static int64_t some_row(trial *t) {
    return t->size[GROUP_COLUMNS] + rng_below(&t->rng, 3) * FV_LANES + rng_below(&t->rng, 2);
}

/* -------------------------------------------------------------------------------------------------------- expand -- */

/* Words up to a whole block of 16 steps belong to the operand; those behind the last step may be written. */
static void expand_result(trial *t) {
    const int64_t steps = t->size[GROUP_STEPS], columns = t->size[GROUP_COLUMNS];
    operand *y = trial_floats(t, "y", CELL_BITS, fv_group_rows(FV_FORMAT_i8g, steps), columns, some_row(t));
    for (int64_t i = (steps + 3) / 4; i < y->rows; i++)
        memset(cell_of(y, i, 0), CELL_ANY, (size_t)columns);
    trial_run(t);
}

static void expand_trials(checker *c) { group_words_trials(c, expand_result); }

static void expand_invoke(const fv_kernel *kernel, trial *t) {
    const fv_operand b = group_operand_placed(t);
    uint32_t *y = trial_pointer(t, OPERAND_Y);
    const int64_t ldy = t->operand[OPERAND_Y].stride, steps = b.steps;
    kernel->run.expand_i4(&b, y, ldy);                   /* expand_i5 and expand_i6 are of the same type */
    for (int64_t j = 0; j < b.columns && steps % 4; j++) /* what is not defined, as if it were */
        memset((char *)(y + steps / 4 * ldy + j) + steps % 4, 0, (size_t)(4 - steps % 4));
}

static void expand_verify(const trial *t) {
    const operand *y = &t->operand[OPERAND_Y];
    for (int64_t i = 0; i < t->size[GROUP_STEPS]; i++)
        for (int64_t j = 0; j < y->cols; j++) {
            const int got = ((const int8_t *)y->want)[4 * (i / 4 * y->stride + j) + i % 4],
                      want = group_number(t, i, j);
            if (got != want) {
                trial_fail(t, "step %" PRId64 ", column %" PRId64 " becomes %d, not %d", i, j, got, want);
                return;
            }
        }
}

const op_check check_expand = {expand_trials, expand_invoke, expand_verify};

/* -------------------------------------------------------------------------------------------------------- unpack -- */

static void unpack_result(trial *t) {
    trial_floats(t, "y", CELL_NAN, t->size[GROUP_STEPS], t->size[GROUP_COLUMNS], some_row(t));
    trial_run(t);
}

static void unpack_trials(checker *c) { group_words_trials(c, unpack_result); }

static void unpack_invoke(const fv_kernel *kernel, trial *t) {
    const fv_operand b = group_operand_placed(t);
    fesetround((int)t->size[GROUP_MODE]);
    kernel->run.unpack(&b, trial_pointer(t, OPERAND_Y), t->operand[OPERAND_Y].stride);
    fesetround(FE_TONEAREST);
}

/* 4 bits of exponent, 3 of fraction. */
static double float_of_8_bits(int byte) {
    const int exponent = byte >> 3 & 15, fraction = byte & 7;
    const double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return exponent == 15 && fraction == 7 ? (double)NAN : byte & 128 ? -size : size;
}

/* A product of 24 bits and 9 is exact as a double; the sum of two floats may not be, and is made as one. */
static float number_of(const trial *t, int64_t i, int64_t j) {
    const int w = group_number(t, i, j);
    const double number = t->checker->kernel->format == FV_FORMAT_f8g ? float_of_8_bits(w) : w;
    const volatile float product = (float)((double)group_scale(t, i, j) * number);
    const volatile float sum = product + group_extra(t, i, j);
    return t->size[GROUP_EXTRA] == FV_GROUP_minimum ? sum : product;
}

static void unpack_verify(const trial *t) {
    const operand *y = &t->operand[OPERAND_Y];
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < y->cols; j++) {
            fesetround((int)t->size[GROUP_MODE]);
            const float want = number_of(t, i, j), got = float_want(y, i, j);
            fesetround(FE_TONEAREST);
            if (float_bits(got) != float_bits(want) && !(float_is_nan(got) && float_is_nan(want))) {
                trial_fail(t, "step %" PRId64 ", column %" PRId64 " becomes %.9g, not %.9g", i, j, (double)got,
                           (double)want);
                return;
            }
        }
}

const op_check check_unpack_groups = {unpack_trials, unpack_invoke, unpack_verify};
