/* Trials of unpack: an operand's elements as floats, bit by bit. */
#include "check.h"

#include "multiply_call.h"

#include <inttypes.h>

enum { SIZE_STEPS, SIZE_COLUMNS };
enum { OPERAND_X, OPERAND_Y, OPERAND_SCALES };

static void unpack_trials(checker *c) {
    const fv_format_info f = fv_format_of(c->kernel->format);
    for (int64_t n = FV_LANES; n <= 5 * FV_LANES; n += FV_LANES)
        for (int64_t steps = 1; steps <= 8; steps++) {
            trial *t = trial_begin(c, "steps=%" PRId64 " n=%" PRId64, steps, n);
            if (!t)
                continue;
            t->size[SIZE_STEPS] = steps;
            t->size[SIZE_COLUMNS] = n;
            operand *x = trial_operand(t, "x", (size_t)(f.bits * f.per_word / 8), CELL_KEPT,
                                       fv_operand_words(c->kernel->format, steps), n, some_stride(t, n));
            trial_floats(t, "y", f.scale == FV_SCALE_none ? CELL_BITS : CELL_NAN, steps, n, some_stride(t, n));
            operand *scales = trial_floats(t, "scales", CELL_KEPT, f.scale == FV_SCALE_column, n, n);
            fill_normal(t, scales);
            sprinkle_specials(t, scales, 16);
            for (int64_t i = 0; i < x->rows; i++)
                for (size_t byte = 0; byte < (size_t)n * x->size; byte++)
                    x->before[(size_t)(i * x->stride) * x->size + byte] = (unsigned char)rng_u64(&t->rng);
            trial_run(t);
        }
}

static void unpack_invoke(const fv_kernel *kernel, trial *t) {
    fv_operand b = operand_of(kernel->format, t->size[SIZE_COLUMNS], t->size[SIZE_STEPS], trial_pointer(t, OPERAND_X),
                              t->operand[OPERAND_X].stride);
    b.scales = trial_pointer(t, OPERAND_SCALES);
    kernel->run.unpack(&b, trial_pointer(t, OPERAND_Y), t->operand[OPERAND_Y].stride);
}

static void unpack_verify(const trial *t) {
    const operand *x = &t->operand[OPERAND_X], *y = &t->operand[OPERAND_Y];
    const fv_operand b = operand_of(t->checker->kernel->format, y->cols, y->rows, x->before, x->stride);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < y->cols; j++) {
            const int64_t place = fv_operand_place(&b, i, j);
            const float scale = *float_before(&t->operand[OPERAND_SCALES], 0, j), got = float_want(y, i, j);
            volatile float want = b.format == FV_FORMAT_bf16x2
                                      ? bits_float((uint32_t)((const uint16_t *)b.data)[place] << 16)
                                      : scale * (float)((const int8_t *)b.data)[place];
            const float due = want;
            if (float_bits(got) != float_bits(due) &&
                !(b.format != FV_FORMAT_bf16x2 && float_is_nan(got) && float_is_nan(due))) {
                trial_fail(t, "step %" PRId64 ", column %" PRId64 " becomes %#" PRIx32 ", not %#" PRIx32, i, j,
                           float_bits(got), float_bits(due));
                return;
            }
        }
}

const op_check check_unpack = {unpack_trials, unpack_invoke, unpack_verify};
