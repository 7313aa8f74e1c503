/* Trials of pack for words of two elements. */
#include "check.h"

#include "simd/half_scalar.h"

#include <inttypes.h>

enum { SIZE_ROWS, SIZE_CHANNELS, SIZE_NR, SIZE_NORM, SIZE_EXPONENT };
enum { OPERAND_X, OPERAND_Y, OPERAND_EXPONENTS, OPERAND_NORM };

/* The norm that both find, continued from the one that was there before. */
static operand *add_exponents(trial *t) {
    operand *o = trial_operand(t, "exponents", sizeof(int), CELL_BITS, 1, 2, 2);
    int *before = (int *)o->before;
    before[0] = rng_below(&t->rng, 2) ? 0xffff : 0x3f00;
    before[1] = rng_below(&t->rng, 2) ? 0 : 0x3f90;
    return o;
}

static void take(fv_exponent_range *m, uint16_t element) {
    const int bits = element & 0x7fff;
    m->least = bits && bits < m->least ? bits : m->least;
    m->most = bits > m->most ? bits : m->most;
}

static fv_exponent_range before_of(const trial *t) {
    const int *before = (const int *)t->operand[OPERAND_EXPONENTS].before;
    return (fv_exponent_range){before[0], before[1]};
}

static void verify_exponents(const trial *t, fv_exponent_range want) {
    const int *got = (const int *)t->operand[OPERAND_EXPONENTS].want;
    if (got[0] != want.least || got[1] != want.most)
        trial_fail(t, "exponents %#x to %#x instead of %#x to %#x", got[0], got[1], want.least, want.most);
}

static void verify_norm(const trial *t, double want) {
    const double got = (double)float_want(&t->operand[OPERAND_NORM], 0, 0);
    if (t->size[SIZE_NORM] && fabs(got - want) > 1e-5 * want)
        trial_fail(t, "norm is %.9g instead of %.9g", got, want);
}

/* An element: ordinary ones, or any bits. */
static uint16_t element(rng *r, bool any) {
    const uint16_t bits = (uint16_t)rng_u64(r);
    return any && rng_below(r, 4) == 0 ? bits : (uint16_t)((bits & 0x807f) | (120 + (bits >> 8 & 15)) << 7);
}

/* ------------------------------------------------------------------------------------------------------ columns -- */

static void pack_trial(checker *c, int64_t keys, int64_t channels, int64_t nr, bool any) {
    trial *t = trial_begin(c, "keys=%" PRId64 " channels=%" PRId64 " nr=%" PRId64 "%s", keys, channels, nr,
                           any ? ", any bits" : "");
    if (!t)
        return;
    const int64_t words = (channels + 1) / 2, filled = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    t->size[SIZE_ROWS] = keys;
    t->size[SIZE_CHANNELS] = channels;
    t->size[SIZE_NR] = nr;
    t->size[SIZE_NORM] = !any && rng_below(&t->rng, 2);
    operand *k = trial_operand(t, "k", sizeof(uint16_t), CELL_KEPT, keys, channels, some_stride(t, channels));
    trial_floats(t, "panel", CELL_BITS, words, filled, nr);
    add_exponents(t);
    operand *norm = trial_floats(t, "norm", CELL_ANY, 1, 1, 1); /* its sums are in any order */
    *float_before(norm, 0, 0) = 0.0f;
    for (int64_t i = 0; i < keys; i++)
        for (int64_t j = 0; j < channels; j++)
            ((uint16_t *)k->before)[i * k->stride + j] = element(&t->rng, any);
    trial_run(t);
}

static void pack_trials(checker *c) {
    for (int64_t channels = 1; channels <= 130; channels += channels < 70 ? 1 : 15)
        for (int64_t keys = 1 + channels % 5; keys <= 64; keys += 11)
            pack_trial(c, keys, channels, keys <= 48 && channels % 2 ? 48 : 64, channels % 3 == 0);
    pack_trial(c, 64, 64, 64, false);
    pack_trial(c, 48, 128, 48, false);
}

static void pack_invoke(const fv_kernel *kernel, trial *t) {
    fv_exponent_range *m = trial_pointer(t, OPERAND_EXPONENTS);
    float *norm = trial_pointer(t, OPERAND_NORM);
    kernel->run.pack(t->size[SIZE_ROWS], t->size[SIZE_CHANNELS], trial_pointer(t, OPERAND_X),
                     t->operand[OPERAND_X].stride, 0, trial_pointer(t, OPERAND_Y), t->size[SIZE_NR], m,
                     t->size[SIZE_NORM] ? norm : NULL);
}

/* 0 where there is none. */
static uint16_t element_at(const operand *k, int64_t key, int64_t channel) {
    return key < k->rows && channel < k->cols ? ((const uint16_t *)k->before)[key * k->stride + channel] : 0;
}

static void pack_verify(const trial *t) {
    const operand *k = &t->operand[OPERAND_X], *panel = &t->operand[OPERAND_Y];
    fv_exponent_range want = before_of(t);
    double highest = 0.0;
    for (int64_t i = 0; i < panel->cols; i++) {
        double squares = 0.0;
        for (int64_t w = 0; w < panel->rows; w++) {
            uint32_t word = 0;
            for (int e = 0; e < 2; e++) {
                if (t->checker->kernel->type == FV_TYPE_f16) { /* words of four keys: first elements, then second */
                    const int64_t key = i / 4 * 4 + i % 2 * 2 + e;
                    word |= (uint32_t)element_at(k, key, 2 * w + i / 2 % 2) << (e ? 16 : 0);
                    squares += pow((double)half_widen_f16(element_at(k, i, 2 * w + e)), 2.0);
                    continue;
                }
                const uint16_t x = element_at(k, i, 2 * w + e);
                take(&want, x);
                word |= (uint32_t)x << (e ? 0 : 16);
                squares += pow((double)bits_float((uint32_t)x << 16), 2.0);
            }
            if (float_bits(float_want(panel, w, i)) != word) {
                trial_fail(t, "key %" PRId64 ", word %" PRId64 " is %#" PRIx32 " instead of %#" PRIx32, i, w,
                           float_bits(float_want(panel, w, i)), word);
                return;
            }
        }
        highest = fmax(highest, squares);
    }
    verify_exponents(t, want);
    verify_norm(t, highest);
}

const op_check check_pack_columns = {pack_trials, pack_invoke, pack_verify};

/* --------------------------------------------------------------------------------------------------------- steps -- */

static void rows_trials(checker *c) {
    for (int64_t n = 1; n <= 70; n++)
        for (int64_t rows = 1; rows <= 9; rows++) {
            const bool any = (n + rows) % 2;
            trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 "%s", rows, n, any ? ", any bits" : "");
            if (!t)
                continue;
            t->size[SIZE_ROWS] = rows;
            t->size[SIZE_CHANNELS] = n;
            operand *x = trial_operand(t, "x", sizeof(uint16_t), CELL_KEPT, rows, n, some_stride(t, n));
            trial_floats(t, "y", CELL_BITS, (rows + 1) / 2, n, some_stride(t, n));
            add_exponents(t);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < n; j++)
                    ((uint16_t *)x->before)[i * x->stride + j] = element(&t->rng, any);
            trial_run(t);
        }
}

static void rows_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.pack(t->size[SIZE_ROWS], t->size[SIZE_CHANNELS], trial_pointer(t, OPERAND_X),
                     t->operand[OPERAND_X].stride, 0, trial_pointer(t, OPERAND_Y), t->operand[OPERAND_Y].stride,
                     trial_pointer(t, OPERAND_EXPONENTS), NULL);
}

static void rows_verify(const trial *t) {
    const operand *x = &t->operand[OPERAND_X], *y = &t->operand[OPERAND_Y];
    fv_exponent_range want = before_of(t);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < y->cols; j++) {
            uint32_t word = 0;
            for (int e = 0; e < 2; e++) {
                const uint16_t half =
                    2 * i + e < x->rows ? ((const uint16_t *)x->before)[(2 * i + e) * x->stride + j] : 0;
                take(&want, half);
                word |= (uint32_t)half << (e ? 0 : 16);
            }
            if (float_bits(float_want(y, i, j)) != word) {
                trial_fail(t, "y[%" PRId64 "][%" PRId64 "] is %#" PRIx32 " instead of %#" PRIx32, i, j,
                           float_bits(float_want(y, i, j)), word);
                return;
            }
        }
    verify_exponents(t, want);
}

const op_check check_pack_steps = {rows_trials, rows_invoke, rows_verify};

/* --------------------------------------------------------------------------------------------------------- rows -- */

static void to_trial(checker *c, int64_t rows, int64_t n, int exponent, bool any) {
    trial *t =
        trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " exponent=%d%s", rows, n, exponent, any ? ", any bits" : "");
    if (!t)
        return;
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_CHANNELS] = n;
    t->size[SIZE_EXPONENT] = exponent;
    t->size[SIZE_NORM] = !any && rng_below(&t->rng, 2);
    operand *x = trial_operand(t, "x", sizeof(uint16_t), CELL_KEPT, rows, n, some_stride(t, n));
    trial_floats(t, "y", CELL_BITS, rows, (n + 1) / 2, some_stride(t, (n + 1) / 2));
    add_exponents(t);
    operand *norm = trial_floats(t, "norm", CELL_ANY, 1, 1, 1); /* its sums are in any order */
    *float_before(norm, 0, 0) = 0.0f;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            ((uint16_t *)x->before)[i * x->stride + j] = rng_below(&t->rng, 9) ? element(&t->rng, any) : 0x8000;
    trial_run(t);
}

static void to_trials(checker *c) {
    for (int64_t n = 1; n <= 140; n++) {
        to_trial(c, 1 + n % 4, n, (int)(n % 17) - 8, false);
        to_trial(c, 1 + n % 3, n, (int)n - 70, true);
    }
    to_trial(c, 40, 64, -3, false);
}

static void to_invoke(const fv_kernel *kernel, trial *t) {
    float *norm = trial_pointer(t, OPERAND_NORM);
    kernel->run.pack(t->size[SIZE_ROWS], t->size[SIZE_CHANNELS], trial_pointer(t, OPERAND_X),
                     t->operand[OPERAND_X].stride, (int)t->size[SIZE_EXPONENT], trial_pointer(t, OPERAND_Y),
                     t->operand[OPERAND_Y].stride, trial_pointer(t, OPERAND_EXPONENTS),
                     t->size[SIZE_NORM] ? norm : NULL);
}

static void to_verify(const trial *t) {
    const operand *x = &t->operand[OPERAND_X], *y = &t->operand[OPERAND_Y];
    fv_exponent_range want = before_of(t);
    double highest = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double squares = 0.0;
        for (int64_t w = 0; w < y->cols; w++) {
            uint32_t word = 0;
            for (int e = 0; e < 2; e++) {
                const uint16_t from = element_at(x, i, 2 * w + e),
                               to = (uint16_t)(from + (from & 0x7fff ? 128 * t->size[SIZE_EXPONENT] : 0));
                take(&want, from);
                word |= (uint32_t)to << (e ? 0 : 16);
                squares += pow((double)bits_float((uint32_t)to << 16), 2.0);
            }
            if (float_bits(float_want(y, i, w)) != word) {
                trial_fail(t, "row %" PRId64 ", word %" PRId64 " is %#" PRIx32 " instead of %#" PRIx32, i, w,
                           float_bits(float_want(y, i, w)), word);
                return;
            }
        }
        highest = fmax(highest, squares);
    }
    verify_exponents(t, want);
    verify_norm(t, highest);
}

const op_check check_pack_rows = {to_trials, to_invoke, to_verify};
