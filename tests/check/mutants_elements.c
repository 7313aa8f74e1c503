/* Mutants of what goes over the elements of arrays: scale, copy, finite, exp, widen, narrow, softcap, normalize,
 * weight_sums, bias_act_residual. */
#include "mutants.h"

#include "fp_control.h"

typedef enum elements_flaw {
    HONEST,
    KEEPS_SUBNORMAL,
    SUMS_IN_ORDER, /* one lane: other roundings */
    QUIETS_NAN,
    KEEPS_NAN,
    FLUSHES,
    SUMS, /* whether all are finite, which overflows */
    LOW_BIT,
    READS_AGAIN, /* wrong in place only */
    CUTS,
    TIES_UP,
    INFINITY_OF_NAN, /* the carry runs through */
    SATURATES,
    BY_LIBM,
    CLAMPS,
    OFF_FROM_1_TO_2, /* 2^-20, which is 16 times what it may be */
    LOSES_LARGE_ROWS,
    LAST_ROW_FIRST,
    RESIDUAL_FIRST, /* inside of the activation */
    OTHER_GELU
} elements_flaw;

static void scale(int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy,
                  float *norm) {
    const uint64_t control = fp_control();
    if (flaw == KEEPS_SUBNORMAL)
        fp_flush(false);
    honest(FV_OP_scale)->run.scale_f32(rows, n, factor, x, ldx, y, ldy, flaw == SUMS_IN_ORDER ? NULL : norm);
    fp_control_set(control);
    for (int64_t i = 0; i < rows && norm && flaw == SUMS_IN_ORDER; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum = fmaf(y[i * ldy + j], y[i * ldy + j], sum);
        *norm = sum > *norm ? sum : *norm;
    }
}

static void copy(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    honest(FV_OP_copy)->run.copy_f32(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows * n; i++) {
        float *to = &y[i / n * ldy + i % n];
        if (flaw == QUIETS_NAN && float_is_nan(*to))
            *to = bits_float(float_bits(*to) | 0x400000);
        if (flaw == FLUSHES && !float_is_nan(*to))
            honest(FV_OP_scale)->run.scale_f32(1, 1, 1.0f, to, 1, to, 1, NULL);
    }
}

static int finite_all(int64_t rows, int64_t n, const float *v, int64_t ldv) {
    float sum = 0.0f;
    for (int64_t i = 0; i < rows * n; i++)
        sum += v[i / n * ldv + i % n];
    return flaw == SUMS ? isfinite(sum) != 0 : honest(FV_OP_finite)->run.finite_f32(rows, n, v, ldv);
}

static void exps(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n && flaw != READS_AGAIN; i++) {
        const float exact = flaw == KEEPS_SUBNORMAL ? (float)exp((double)x[i]) : scalar_exp(x[i]);
        y[i] = flaw == LOW_BIT && x[i] > -2.0f && x[i] < -1.9f ? bits_float(float_bits(exact) ^ 1) : exact;
    }
    for (int round = 0; round < 2 && flaw == READS_AGAIN; round++)
        honest(FV_OP_exp)->run.exp_f32(n, x, y);
}

static void widen_bf16(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_bf16)->run.widen_bf16(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows * n && flaw == KEEPS_NAN; i++)
        y[i / n * ldy + i % n] = bits_float((uint32_t)x[i / n * ldx + i % n] << 16);
}

static void widen_f16(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_f16)->run.widen_f16(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows * n && flaw == FLUSHES; i++)
        if ((x[i / n * ldx + i % n] & 0x7c00) == 0)
            y[i / n * ldy + i % n] = copysignf(0.0f, y[i / n * ldy + i % n]);
}

static void narrow_bf16(int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_bf16)->run.narrow_bf16(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows * n; i++) {
        const uint32_t bits = float_bits(x[i / n * ldx + i % n]);
        uint16_t *to = &y[i / n * ldy + i % n];
        switch (flaw) {
        case CUTS: *to = (uint16_t)(bits >> 16); break;
        case TIES_UP: *to += (bits & 0x1ffff) == 0x8000 && !float_is_nan(bits_float(bits)); break;
        case INFINITY_OF_NAN: *to = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); break;
        case FLUSHES: *to &= (bits & 0x7f800000) == 0 ? 0x8000 : 0xffff; break; /* as VCVTNEPS2BF16 does */
        default: break;
        }
    }
}

static void narrow_f16(int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_f16)->run.narrow_f16(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows * n; i++) {
        uint16_t *to = &y[i / n * ldy + i % n];
        if (flaw == FLUSHES && (*to & 0x7c00) == 0)
            *to &= 0x8000;
        *to -= flaw == SATURATES && (*to & 0x7fff) == 0x7c00;
    }
}

static void softcap(int64_t rows, int64_t n, float factor, float cap, float *s, int64_t lds) {
    if (flaw == HONEST)
        honest(FV_OP_softcap)->run.softcap_f32(rows, n, factor, cap, s, lds);
    for (int64_t i = 0; i < rows * n && flaw != HONEST; i++) {
        float *at = &s[i / n * lds + i % n];
        const float x = factor * *at, more = fabsf(x) > 1.0f && fabsf(x) < 2.0f ? 0x1p-20f : 0.0f;
        *at = flaw == CLAMPS ? fmaxf(-cap, fminf(cap, cap * x)) : cap * (tanhf(x) + (flaw == BY_LIBM ? 0.0f : more));
    }
}

static void normalize(int64_t rows, int64_t n, const float *x, int64_t ldx, const fv_normalize *args, float *y,
                      int64_t ldy) {
    fv_normalize other = *args;
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0.0f, squares = 0.0f;
        const float *row = x + i * ldx;
        if (flaw != SUMS_IN_ORDER) {
            other.eps = flaw == LOSES_LARGE_ROWS && fabsf(*row) >= 0x1p66f ? INFINITY : args->eps;
            honest(FV_OP_normalize)->run.normalize_f32(1, n, row, ldx, &other, y + i * ldy, ldy);
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            sum += row[j];
        const float mean = args->centre ? sum / (float)n : 0.0f;
        for (int64_t j = 0; j < n; j++)
            squares = fmaf(row[j] - mean, row[j] - mean, squares);
        const float factor = 1.0f / sqrtf(squares / (float)n + args->eps);
        for (int64_t j = 0; j < n; j++) {
            const float t = (row[j] - mean) * factor, w = args->weight ? args->weight[j] : 1.0f;
            y[i * ldy + j] = args->bias ? fmaf(t, w, args->bias[j]) : t * w;
        }
    }
}

static void weight_sums(int64_t rows, int64_t begin, int64_t end, const float *s, int64_t lds, float c,
                        const float *lse, const fv_keybits *bits, int64_t bits_step, float *sums) {
    for (int64_t n = 0; n < rows; n++) {
        const int64_t i = flaw == LAST_ROW_FIRST ? rows - 1 - n : n;
        honest(FV_OP_weight_sums)
            ->run.weight_sums_f32(1, begin, end, s + i * lds, lds, c, lse + i, bits ? bits + i * bits_step : NULL, 0,
                                  sums);
    }
}

static void bias_act(int64_t rows, int64_t n, const float *c, int64_t ldc, const fv_bias_act_residual *args, float *y,
                     int64_t ldy) {
    fv_bias_act_residual other = *args;
    const fv_bias_act_residual rest = {.activation = args->activation};
    if (flaw == OTHER_GELU && args->activation == FV_ACT_GELU)
        other.activation = FV_ACT_GELU_TANH;
    if (flaw == RESIDUAL_FIRST)
        other.activation = FV_ACT_NONE;
    honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, c, ldc, &other, y, ldy);
    if (flaw == RESIDUAL_FIRST)
        honest(FV_OP_bias_act_residual)->run.bias_act_residual_f32(rows, n, y, ldy, &rest, y, ldy);
}

static const mutant mutants[] = {
    MUTANT(PASSES_FLUSHED, HONEST, scale, f32, 1, 1, scale),
    MUTANT(PASSES, KEEPS_SUBNORMAL, scale, f32, 1, 1, scale),
    MUTANT(DIFFERS_FLUSHED, KEEPS_SUBNORMAL, scale, f32, 1, 1, scale),
    MUTANT(DIFFERS, SUMS_IN_ORDER, scale, f32, 1, 1, scale),
    MUTANT(PASSES_FLUSHED, HONEST, copy, f32, 1, 1, copy),
    MUTANT(PASSES, FLUSHES, copy, f32, 1, 1, copy),
    MUTANT(DIFFERS_FLUSHED, FLUSHES, copy, f32, 1, 1, copy),
    MUTANT(DIFFERS, QUIETS_NAN, copy, f32, 1, 1, copy),
    MUTANT(PASSES, HONEST, finite, f32, 1, 8, finite_all),
    MUTANT(DIFFERS_AS_REFERENCE, SUMS, finite, f32, 1, 8, finite_all),
    MUTANT(PASSES, HONEST, exp, f32, 1, 8, exps),
    MUTANT(DIFFERS, LOW_BIT, exp, f32, 1, 8, exps),
    MUTANT(DIFFERS, READS_AGAIN, exp, f32, 1, 8, exps),
    MUTANT(DIFFERS_AS_REFERENCE, KEEPS_SUBNORMAL, exp, f32, 1, 8, exps),
    MUTANT(PASSES_FLUSHED, HONEST, widen, bf16, 1, 1, widen_bf16),
    MUTANT(DIFFERS, KEEPS_NAN, widen, bf16, 1, 1, widen_bf16),
    MUTANT(PASSES_FLUSHED, HONEST, widen, f16, 1, 1, widen_f16),
    MUTANT(DIFFERS_AS_REFERENCE, FLUSHES, widen, f16, 1, 1, widen_f16),
    MUTANT(PASSES_FLUSHED, HONEST, narrow, bf16, 1, 1, narrow_bf16),
    MUTANT(DIFFERS_AS_REFERENCE, CUTS, narrow, bf16, 1, 1, narrow_bf16),
    MUTANT(DIFFERS_AS_REFERENCE, TIES_UP, narrow, bf16, 1, 1, narrow_bf16),
    MUTANT(DIFFERS_AS_REFERENCE, INFINITY_OF_NAN, narrow, bf16, 1, 1, narrow_bf16),
    MUTANT(DIFFERS_AS_REFERENCE, FLUSHES, narrow, bf16, 1, 1, narrow_bf16),
    MUTANT(PASSES_FLUSHED, HONEST, narrow, f16, 1, 1, narrow_f16),
    MUTANT(DIFFERS_AS_REFERENCE, FLUSHES, narrow, f16, 1, 1, narrow_f16),
    MUTANT(DIFFERS_AS_REFERENCE, SATURATES, narrow, f16, 1, 1, narrow_f16),
    MUTANT(PASSES_FLUSHED, HONEST, softcap, f32, 1, 1, softcap),
    MUTANT(DIFFERS, BY_LIBM, softcap, f32, 1, 1, softcap),
    MUTANT(DIFFERS_AS_REFERENCE, CLAMPS, softcap, f32, 1, 1, softcap),
    MUTANT(DIFFERS_AS_REFERENCE, OFF_FROM_1_TO_2, softcap, f32, 1, 1, softcap),
    MUTANT(PASSES_FLUSHED, HONEST, normalize, f32, 1, 1, normalize),
    MUTANT(DIFFERS, SUMS_IN_ORDER, normalize, f32, 1, 1, normalize),
    MUTANT(DIFFERS_AS_REFERENCE, LOSES_LARGE_ROWS, normalize, f32, 1, 1, normalize),
    MUTANT(PASSES_FLUSHED, HONEST, weight_sums, f32, 1, 1, weight_sums),
    MUTANT(DIFFERS_AS_REFERENCE, LAST_ROW_FIRST, weight_sums, f32, 1, 1, weight_sums),
    MUTANT(PASSES, HONEST, bias_act_residual, f32, 1, 8, bias_act),
    MUTANT(DIFFERS_AS_REFERENCE, RESIDUAL_FIRST, bias_act_residual, f32, 1, 8, bias_act),
    MUTANT(DIFFERS_AS_REFERENCE, OTHER_GELU, bias_act_residual, f32, 1, 8, bias_act),
};

const mutant_table mutants_elements = {mutants, sizeof mutants / sizeof mutants[0]};
