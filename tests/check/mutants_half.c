/* Mutants of widen and narrow. */
#include "mutants.h"

#define WIDEN_PARAMETERS int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy
#define NARROW_PARAMETERS int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy

static void widen_bf16_honest(WIDEN_PARAMETERS) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_bf16)->run.widen_bf16(rows, n, x, ldx, y, ldy);
}

static void widen_f16_honest(WIDEN_PARAMETERS) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_f16)->run.widen_f16(rows, n, x, ldx, y, ldy);
}

static void widen_keeps_nan(WIDEN_PARAMETERS) { /* signalling */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = bits_float((uint32_t)x[i * ldx + j] << 16);
}

static void widen_misses_last(WIDEN_PARAMETERS) { widen_bf16_honest(rows, n - 1, x, ldx, y, ldy); }

static void widen_flushes(WIDEN_PARAMETERS) {
    widen_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((x[i * ldx + j] & 0x7c00) == 0)
                y[i * ldy + j] = copysignf(0.0f, y[i * ldy + j]);
}

static void narrow_bf16_honest(NARROW_PARAMETERS) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_bf16)->run.narrow_bf16(rows, n, x, ldx, y, ldy);
}

static void narrow_f16_honest(NARROW_PARAMETERS) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_f16)->run.narrow_f16(rows, n, x, ldx, y, ldy);
}

static void narrow_cuts(NARROW_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = (uint16_t)(float_bits(x[i * ldx + j]) >> 16);
}

static void narrow_ties_up(NARROW_PARAMETERS) {
    narrow_bf16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((float_bits(x[i * ldx + j]) & 0x1ffff) == 0x8000 && !float_is_nan(x[i * ldx + j]))
                y[i * ldy + j]++;
}

static void narrow_makes_infinity_of_nan(NARROW_PARAMETERS) { /* the carry runs through */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint32_t bits = float_bits(x[i * ldx + j]);
            y[i * ldy + j] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
}

static void narrow_flushes(NARROW_PARAMETERS) { /* as VCVTNEPS2BF16 does */
    narrow_bf16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((float_bits(x[i * ldx + j]) & 0x7f800000) == 0)
                y[i * ldy + j] &= 0x8000;
}

static void narrow_flushes_f16(NARROW_PARAMETERS) {
    narrow_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((y[i * ldy + j] & 0x7c00) == 0)
                y[i * ldy + j] &= 0x8000;
}

static void narrow_saturates(NARROW_PARAMETERS) {
    narrow_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((y[i * ldy + j] & 0x7fff) == 0x7c00)
                y[i * ldy + j]--;
}

static const mutant mutants[] = {
    MUTANT(PASSES, widen, bf16, 1, 1, widen_bf16_honest),
    MUTANT(PASSES_FLUSHED, widen, bf16, 1, 1, widen_bf16_honest),
    MUTANT(PASSES, widen, f16, 1, 1, widen_f16_honest),
    MUTANT(PASSES_FLUSHED, widen, f16, 1, 1, widen_f16_honest),
    MUTANT(DIFFERS, widen, bf16, 1, 1, widen_keeps_nan),
    MUTANT(DIFFERS, widen, bf16, 1, 1, widen_misses_last),
    MUTANT(DIFFERS, widen, f16, 1, 1, widen_flushes),
    MUTANT(DIFFERS_AS_REFERENCE, widen, f16, 1, 1, widen_flushes),
    MUTANT(PASSES, narrow, bf16, 1, 1, narrow_bf16_honest),
    MUTANT(PASSES_FLUSHED, narrow, bf16, 1, 1, narrow_bf16_honest),
    MUTANT(PASSES, narrow, f16, 1, 1, narrow_f16_honest),
    MUTANT(PASSES_FLUSHED, narrow, f16, 1, 1, narrow_f16_honest),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_cuts),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_ties_up),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_makes_infinity_of_nan),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_flushes),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, f16, 1, 1, narrow_flushes_f16),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, f16, 1, 1, narrow_saturates),
};

const mutant_table mutants_half = {mutants, sizeof mutants / sizeof mutants[0]};
