/* Mutants of what goes through an array once: scale, copy, pack, finite, exp. */
#include "mutants.h"

#include "fp_control.h"

/* --------------------------------------------------------------------------------------------------------- scale -- */

#define SCALE_PARAMETERS                                                                                               \
    int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy, float *norm
#define SCALE_ARGUMENTS rows, n, factor, x, ldx, y, ldy, norm

static void scale_honest(SCALE_PARAMETERS) { honest(FV_OP_scale)->run.scale_f32(SCALE_ARGUMENTS); }

static void scale_keeps_subnormal(SCALE_PARAMETERS) {
    const uint64_t control = fp_control();
    fp_flush(false);
    scale_honest(SCALE_ARGUMENTS);
    fp_control_set(control);
}

static void scale_forgets_norm(SCALE_PARAMETERS) { /* that there was */
    if (norm)
        *norm = 0.0f;
    scale_honest(SCALE_ARGUMENTS);
}

static void scale_norm_of_x(SCALE_PARAMETERS) {
    if (norm)
        honest(FV_OP_scale)->run.scale_f32(rows, n, 1.0f, x, ldx, y, ldy, norm);
    honest(FV_OP_scale)->run.scale_f32(rows, n, factor, x, ldx, y, ldy, NULL);
}

static void scale_norm_misses_last_row(SCALE_PARAMETERS) {
    honest(FV_OP_scale)->run.scale_f32(rows - 1, n, factor, x, ldx, y, ldy, norm);
    honest(FV_OP_scale)->run.scale_f32(1, n, factor, x + (rows - 1) * ldx, ldx, y + (rows - 1) * ldy, ldy, NULL);
}

static void scale_norm_sums_in_order(SCALE_PARAMETERS) { /* one lane: other roundings */
    honest(FV_OP_scale)->run.scale_f32(rows, n, factor, x, ldx, y, ldy, NULL);
    for (int64_t i = 0; i < rows && norm; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum = fmaf(y[i * ldy + j], y[i * ldy + j], sum);
        *norm = sum > *norm ? sum : *norm;
    }
}

/* ---------------------------------------------------------------------------------------------------------- copy -- */

#define COPY_PARAMETERS int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy
#define COPY_ARGUMENTS rows, n, x, ldx, y, ldy

static void copy_honest(COPY_PARAMETERS) { honest(FV_OP_copy)->run.copy_f32(COPY_ARGUMENTS); }

static void copy_misses_last(COPY_PARAMETERS) { honest(FV_OP_copy)->run.copy_f32(rows, n - 1, x, ldx, y, ldy); }

static void copy_misses_last_row(COPY_PARAMETERS) { honest(FV_OP_copy)->run.copy_f32(rows - 1, n, x, ldx, y, ldy); }

static void copy_takes_gaps_along(COPY_PARAMETERS) { /* where rows of both are as far apart */
    if (ldx == ldy)
        honest(FV_OP_copy)->run.copy_f32(1, (rows - 1) * ldx + n, x, ldx, y, ldy);
    else
        copy_honest(COPY_ARGUMENTS);
}

static void copy_quiets_nan(COPY_PARAMETERS) {
    copy_honest(COPY_ARGUMENTS);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if (float_is_nan(y[i * ldy + j]))
                y[i * ldy + j] = bits_float(float_bits(y[i * ldy + j]) | 0x400000);
}

static void copy_by_scale(COPY_PARAMETERS) { /* flushes */
    copy_honest(COPY_ARGUMENTS);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if (!float_is_nan(x[i * ldx + j]))
                honest(FV_OP_scale)->run.scale_f32(1, 1, 1.0f, x + i * ldx + j, 1, y + i * ldy + j, 1, NULL);
}

/* ---------------------------------------------------------------------------------------------------------- pack -- */

static void pack_honest(PACK_PARAMETERS) { honest_pack(FV_SOURCE_columns, FV_FORMAT_f32)(PACK_ARGUMENTS); }

static void pack_repeats_last_key(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t c = 0; c < n && rows % FV_LANES != 0; c++)
        y[c * ldy + rows] = y[c * ldy + rows - 1];
}

static void pack_zeroes_whole_width(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t i = (rows + FV_LANES - 1) / FV_LANES * FV_LANES; i < ldy; i++)
        y[i] = 0.0f;
}

static void pack_quiets_nan(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < rows; i++)
            if (float_is_nan(y[c * ldy + i]))
                y[c * ldy + i] = bits_float(float_bits(y[c * ldy + i]) | 0x400000);
}

static void pack_forgets_norm(PACK_PARAMETERS) { /* that there was */
    if (norm)
        *norm = 0.0f;
    pack_honest(PACK_ARGUMENTS);
}

static void pack_norm_misses_last_channel(PACK_PARAMETERS) {
    pack_honest(rows, n - 1, x, ldx, exponent, y, ldy, m, norm);
    pack_honest(rows, n, x, ldx, exponent, y, ldy, m, NULL);
}

static void pack_norm_misses_last_key(PACK_PARAMETERS) {
    pack_honest(rows - 1, n, x, ldx, exponent, y, ldy, m, norm);
    pack_honest(rows, n, x, ldx, exponent, y, ldy, m, NULL);
}

static void pack_norm_of_nan(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t i = 0; i < rows * n && norm; i++)
        if (float_is_nan(((const float *)x)[i / n * ldx + i % n]))
            *norm = ((const float *)x)[i / n * ldx + i % n];
}

/* -------------------------------------------------------------------------------------------------------- finite -- */

static int finite_honest(int64_t rows, int64_t n, const float *v, int64_t ldv) {
    return honest(FV_OP_finite)->run.finite_f32(rows, n, v, ldv);
}

static int finite_misses_last(int64_t rows, int64_t n, const float *v, int64_t ldv) {
    return n == 1 ? 1 : finite_honest(rows, n - 1, v, ldv);
}

static int finite_by_sum(int64_t rows, int64_t n, const float *v, int64_t ldv) { /* overflows */
    float sum = 0.0f;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            sum += v[i * ldv + j];
    return isfinite(sum) != 0;
}

static int finite_reads_gaps(int64_t rows, int64_t n, const float *v, int64_t ldv) {
    return finite_honest(1, (rows - 1) * ldv + n, v, 1);
}

/* ----------------------------------------------------------------------------------------------------------- exp -- */

static void exp_honest(int64_t n, const float *x, float *y) { honest(FV_OP_exp)->run.exp_f32(n, x, y); }

static void exp_other_rounding(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) {
        const float exact = scalar_exp(x[i]);
        y[i] = x[i] > -2.0f && x[i] < -1.9f ? bits_float(float_bits(exact) ^ 1) : exact;
    }
}

static void exp_keeps_subnormal(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)exp((double)x[i]);
}

static void exp_reads_again(int64_t n, const float *x, float *y) { /* wrong in place only */
    exp_honest(n, x, y);
    for (int64_t i = 0; i < n; i++)
        y[i] = scalar_exp(x[i]);
}

/* ----------------------------------------------------------------------------------------------------------- all -- */

static const mutant mutants[] = {
    MUTANT(PASSES_FLUSHED, scale, f32, 1, 1, scale_honest),
    MUTANT(PASSES, scale, f32, 1, 1, scale_keeps_subnormal),
    MUTANT(DIFFERS_FLUSHED, scale, f32, 1, 1, scale_keeps_subnormal),
    MUTANT(DIFFERS, scale, f32, 1, 1, scale_forgets_norm),
    MUTANT(DIFFERS, scale, f32, 1, 1, scale_norm_of_x),
    MUTANT(DIFFERS, scale, f32, 1, 1, scale_norm_misses_last_row),
    MUTANT(DIFFERS, scale, f32, 1, 1, scale_norm_sums_in_order),
    MUTANT(PASSES, copy, f32, 1, 1, copy_honest),
    MUTANT(PASSES_FLUSHED, copy, f32, 1, 1, copy_honest),
    MUTANT(DIFFERS, copy, f32, 1, 1, copy_misses_last),
    MUTANT(DIFFERS, copy, f32, 1, 1, copy_misses_last_row),
    MUTANT(DIFFERS, copy, f32, 1, 1, copy_takes_gaps_along),
    MUTANT(DIFFERS, copy, f32, 1, 1, copy_quiets_nan),
    MUTANT(PASSES, copy, f32, 1, 1, copy_by_scale),
    MUTANT(DIFFERS_FLUSHED, copy, f32, 1, 1, copy_by_scale),
    PACK(PASSES, columns, f32, pack_honest),
    PACK(DIFFERS, columns, f32, pack_repeats_last_key),
    PACK(DIFFERS, columns, f32, pack_zeroes_whole_width),
    PACK(DIFFERS, columns, f32, pack_quiets_nan),
    PACK(DIFFERS, columns, f32, pack_forgets_norm),
    PACK(DIFFERS, columns, f32, pack_norm_misses_last_channel),
    PACK(DIFFERS, columns, f32, pack_norm_misses_last_key),
    PACK(DIFFERS, columns, f32, pack_norm_of_nan),
    MUTANT(PASSES, finite, f32, 1, 8, finite_honest),
    MUTANT(DIFFERS, finite, f32, 1, 8, finite_misses_last),
    MUTANT(DIFFERS_AS_REFERENCE, finite, f32, 1, 8, finite_by_sum),
    MUTANT(DIFFERS, finite, f32, 1, 8, finite_reads_gaps),
    MUTANT(PASSES, exp, f32, 1, 8, exp_honest),
    MUTANT(DIFFERS, exp, f32, 1, 8, exp_other_rounding),
    MUTANT(DIFFERS_AS_REFERENCE, exp, f32, 1, 8, exp_keeps_subnormal),
    MUTANT(DIFFERS, exp, f32, 1, 8, exp_reads_again),
};

const mutant_table mutants_array = {mutants, sizeof mutants / sizeof mutants[0]};
