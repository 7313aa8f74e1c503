/* Kernels broken on purpose, each in one way that has happened to somebody, to prove that the check sees it. Beside them
 * the same kernels unbroken, which must pass: otherwise a mutant might be caught for another reason than its own.
 *
 * A mutant is a scalar row of its own. Some only do wrong what no comparison with the scalar row can show, since they
 * stand for a wrong scalar row (the order of a sum, say): these are checked as if they were the reference.
 */
#include "check.h"

#include "abi.h"
#include "fp_control.h"
#include "registry.h"
#include "test.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static const fv_kernel *honest(fv_op op) { return fv_kernel_best(op, FV_ISA_scalar); }

/* ------------------------------------------------------------------------------------------------ gemm and gemmskip -- */

#define GEMM_PARAMETERS                                                                                                \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,  \
        const fv_merge *merge
#define GEMM_ARGUMENTS m, n, k, a, lda, b, ldb, c, ldc, merge

static void gemm_honest(GEMM_PARAMETERS) { honest(FV_OP_gemm)->run.gemm_f32(GEMM_ARGUMENTS); }

static void gemm_last_column_missing(GEMM_PARAMETERS) {
    n -= n % 4 == 1;
    if (n > 0)
        gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_last_row_missing(GEMM_PARAMETERS) {
    m -= m == 5;
    gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_chain_too_short(GEMM_PARAMETERS) {
    k -= k > 4;
    gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_reads_past_b(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    (void)((const volatile float *)b)[(k - 1) * ldb + n];
}

static void gemm_reads_before_a(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    (void)((const volatile float *)a)[-1];
}

static void gemm_writes_past_c(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    c[(m - 1) * ldc + n] = 0.0f;
}

static void gemm_writes_into_gap(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if (m > 1 && ldc > n)
        c[n] = 0.0f;
}

static void gemm_writes_before_c(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if ((uintptr_t)c % 4096 != 0) /* not into the forbidden page: the slack must show it */
        c[-1] = 0.0f;
}

static void gemm_changes_input(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    ((float *)(uintptr_t)a)[0] = 0.0f;
}

static void gemm_needs_alignment(GEMM_PARAMETERS) {
    if ((uintptr_t)b % 16 != 0)
        raise(SIGBUS); /* what a processor says */
    gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_reads_old_c(GEMM_PARAMETERS) {
    const bool first = merge && merge->b && !merge->a && m <= 64;
    if (first)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] *= 0.0f; /* 0 unless it was NaN or infinite */
    const float zeros[64] = {0.0f};
    const fv_merge with_zeros = {.a = zeros, .b = merge ? merge->b : NULL};
    honest(FV_OP_gemm)->run.gemm_f32(m, n, k, a, lda, b, ldb, c, ldc, first ? &with_zeros : merge);
}

static void gemm_first_factor_for_all(GEMM_PARAMETERS) {
    float same[64];
    const fv_merge wrong = {.a = merge ? merge->a : NULL, .b = same};
    const bool merges = merge && merge->b;
    for (int64_t i = 0; i < 64; i++)
        same[i] = merges ? merge->b[0] : 0.0f;
    honest(FV_OP_gemm)->run.gemm_f32(m, n, k, a, lda, b, ldb, c, ldc, merges && m <= 64 ? &wrong : merge);
}

static void gemm_adds_blocks(GEMM_PARAMETERS) { /* the sum of two chains instead of one chain */
    const float ones[64] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    const fv_merge sum = {.a = ones, .b = ones};
    const bool carry = merge && merge->carry && m <= 9;
    honest(FV_OP_gemm)->run.gemm_f32(m, n, k, a, lda, b, ldb, c, ldc, carry ? &sum : merge);
}

static void gemm_sets_flush_to_zero(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break(ABI_CONTROL);
}

static void gemm_leaves_upper_dirty(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break(ABI_UPPER);
}

/* The last one, which the compiler is the least likely to use, and so to restore, in this function itself. */
static void gemm_loses_register(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break_register(abi_registers() - 1);
}

/* The chain in another order, or rounded otherwise; plain stores only. */
typedef enum chain { CHAIN_DESCENDING, CHAIN_SPLIT, CHAIN_UNFUSED } chain;

static void gemm_chain(chain how, GEMM_PARAMETERS) {
    if (merge) {
        gemm_honest(GEMM_ARGUMENTS);
        return;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc[2] = {0.0f, 0.0f};
            for (int64_t p = 0; p < k; p++) {
                const int64_t q = how == CHAIN_DESCENDING ? k - 1 - p : p;
                float *to = &acc[how == CHAIN_SPLIT ? p % 2 : 0];
                const float product = a[i * lda + q] * b[q * ldb + j];
                *to = how == CHAIN_UNFUSED ? *to + product : fmaf(a[i * lda + q], b[q * ldb + j], *to);
            }
            c[i * ldc + j] = acc[0] + acc[1];
        }
}

static void gemm_descending(GEMM_PARAMETERS) { gemm_chain(CHAIN_DESCENDING, GEMM_ARGUMENTS); }
static void gemm_split(GEMM_PARAMETERS) { gemm_chain(CHAIN_SPLIT, GEMM_ARGUMENTS); }
static void gemm_unfused(GEMM_PARAMETERS) { gemm_chain(CHAIN_UNFUSED, GEMM_ARGUMENTS); }

static void gemmskip_skips_positive_zero(GEMM_PARAMETERS) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = merge && !merge->b ? c[i * ldc + j] : 0.0f;
            for (int64_t p = 0; p < k; p++)
                acc = a[i * lda + p] == 0.0f ? acc : fmaf(a[i * lda + p], b[p * ldb + j], acc);
            if (merge && merge->b)
                acc = acc * merge->b[i];
            c[i * ldc + j] = merge && merge->a ? fmaf(c[i * ldc + j], merge->a[i], acc) : acc;
        }
}

/* ------------------------------------------------------------------------------------------------------------ scale -- */

#define SCALE_PARAMETERS int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy
#define SCALE_ARGUMENTS rows, n, factor, x, ldx, y, ldy

static void scale_honest(SCALE_PARAMETERS) { honest(FV_OP_scale)->run.scale_f32(SCALE_ARGUMENTS); }

static void scale_keeps_subnormal(SCALE_PARAMETERS) {
    const uint64_t control = fp_control();
    fp_flush(false);
    scale_honest(SCALE_ARGUMENTS);
    fp_control_set(control);
}

/* ------------------------------------------------------------------------------------------------------------- pack -- */

#define PACK_PARAMETERS int64_t keys, int64_t channels, const float *k, int64_t ldk, float *panel, int64_t nr
#define PACK_ARGUMENTS keys, channels, k, ldk, panel, nr

static void pack_honest(PACK_PARAMETERS) { honest(FV_OP_pack)->run.pack_f32(PACK_ARGUMENTS); }

static void pack_repeats_last_key(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t c = 0; c < channels && keys % FV_LANES != 0; c++)
        panel[c * nr + keys] = panel[c * nr + keys - 1];
}

static void pack_zeroes_whole_width(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t i = (keys + FV_LANES - 1) / FV_LANES * FV_LANES; i < nr; i++)
        panel[i] = 0.0f;
}

static void pack_quiets_nan(PACK_PARAMETERS) {
    pack_honest(PACK_ARGUMENTS);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < keys; i++)
            if (float_is_nan(panel[c * nr + i]))
                panel[c * nr + i] = bits_float(float_bits(panel[c * nr + i]) | 0x400000);
}

/* ---------------------------------------------------------------------------------------------- softmax and weights -- */

#define SOFTMAX_PARAMETERS                                                                                             \
    int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,        \
        float *m, float *l
#define SOFTMAX_ARGUMENTS rows, begin, end, s, lds, bits, bits_step, m, l

typedef enum softmax_flaw {
    SOFTMAX_HONEST,
    SOFTMAX_MAX_OF_ALL,        /* masked keys too */
    SOFTMAX_MASK_AS_PLUS_ZERO, /* p = +0 where masked */
    SOFTMAX_NAN_IS_NOTHING,    /* p = 0 for a NaN score */
    SOFTMAX_LOW_IS_NAN,        /* -inf minus -inf */
    SOFTMAX_FIRST_BITS,        /* of row 0 for every row */
    SOFTMAX_BITS_FROM_ZERO,    /* bit 0 taken for key `begin` */
    SOFTMAX_PLAIN_SUM,         /* one lane */
    SOFTMAX_LANES_IN_PAIRS,    /* neighbouring lanes first */
    SOFTMAX_NO_MAX             /* exp(s) instead of exp(s - m) */
} softmax_flaw;

static void softmax_row(softmax_flaw flaw, int64_t begin, int64_t end, float *s, const fv_keybits *bits, float *m,
                        float *l) {
    const int64_t shift = flaw == SOFTMAX_BITS_FROM_ZERO ? begin : 0;
    float highest = -INFINITY, lane[FV_LANES] = {0.0f};
    bool seen[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++) {
        seen[i] = !bits || (bits->word[(i - shift) / 64] >> ((i - shift) % 64) & 1);
        if ((seen[i] || flaw == SOFTMAX_MAX_OF_ALL) && s[i] > highest)
            highest = s[i];
    }
    *m = flaw == SOFTMAX_NO_MAX ? 0.0f : highest;
    for (int64_t i = begin; i < end; i++) {
        const float base = *m == -INFINITY && flaw != SOFTMAX_LOW_IS_NAN ? 0.0f : *m;
        float p = seen[i] ? scalar_exp(s[i] - base) : flaw == SOFTMAX_MASK_AS_PLUS_ZERO ? 0.0f : -0.0f;
        if (flaw == SOFTMAX_NAN_IS_NOTHING && float_is_nan(p))
            p = 0.0f;
        s[i] = p;
        lane[flaw == SOFTMAX_PLAIN_SUM ? 0 : i % FV_LANES] += p;
    }
    for (int step = 1; flaw == SOFTMAX_LANES_IN_PAIRS && step < FV_LANES; step *= 2)
        for (int j = 0; j < FV_LANES; j += 2 * step)
            lane[j] += lane[j + step];
    for (int half = FV_LANES / 2; flaw != SOFTMAX_LANES_IN_PAIRS && half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    *l = lane[0];
}

static void softmax_flawed(softmax_flaw flaw, SOFTMAX_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        softmax_row(flaw, begin, end, s + i * lds,
                    bits ? bits + (flaw == SOFTMAX_FIRST_BITS ? 0 : i * bits_step) : NULL, m + i, l + i);
}

static void softmax_honest(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_HONEST, SOFTMAX_ARGUMENTS); }
static void softmax_max_of_all(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_MAX_OF_ALL, SOFTMAX_ARGUMENTS); }
static void softmax_mask_as_plus_zero(SOFTMAX_PARAMETERS) {
    softmax_flawed(SOFTMAX_MASK_AS_PLUS_ZERO, SOFTMAX_ARGUMENTS);
}
static void softmax_nan_is_nothing(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_NAN_IS_NOTHING, SOFTMAX_ARGUMENTS); }
static void softmax_low_is_nan(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_LOW_IS_NAN, SOFTMAX_ARGUMENTS); }
static void softmax_first_bits(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_FIRST_BITS, SOFTMAX_ARGUMENTS); }
static void softmax_bits_from_zero(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_BITS_FROM_ZERO, SOFTMAX_ARGUMENTS); }
static void softmax_plain_sum(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_PLAIN_SUM, SOFTMAX_ARGUMENTS); }
static void softmax_lanes_in_pairs(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_LANES_IN_PAIRS, SOFTMAX_ARGUMENTS); }
static void softmax_no_max(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_NO_MAX, SOFTMAX_ARGUMENTS); }

#define AFTER_PARAMETERS                                                                                               \
    int64_t rows, int64_t n, const float *c, int64_t ldc, const fv_after *after, float *y, int64_t ldy
#define AFTER_ARGUMENTS rows, n, c, ldc, after, y, ldy

static void after_honest(AFTER_PARAMETERS) { honest(FV_OP_after)->run.after_f32(AFTER_ARGUMENTS); }

static void after_residual_first(AFTER_PARAMETERS) { /* inside of the activation */
    fv_after plain = *after;
    plain.activation = FV_ACT_NONE;
    honest(FV_OP_after)->run.after_f32(rows, n, c, ldc, &plain, y, ldy);
    const fv_after rest = {.activation = after->activation};
    honest(FV_OP_after)->run.after_f32(rows, n, y, ldy, &rest, y, ldy);
}

static void after_other_gelu(AFTER_PARAMETERS) {
    fv_after other = *after;
    other.activation = after->activation == FV_ACT_GELU ? FV_ACT_GELU_TANH : after->activation;
    honest(FV_OP_after)->run.after_f32(rows, n, c, ldc, &other, y, ldy);
}

#define WEIGHTS_PARAMETERS int64_t begin, int64_t end, const float *s, float lse, const fv_keybits *bits, float *w
#define WEIGHTS_ARGUMENTS begin, end, s, lse, bits, w

static void weights_honest(WEIGHTS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        const bool seen = (bits->word[i / 64] >> (i % 64) & 1) && lse != -INFINITY;
        const float p = seen ? scalar_exp(s[i] - lse) : 0.0f;
        w[i] = float_is_nan(p) ? bits_float(CANONICAL_NAN) : p;
    }
}

static void weights_mask_is_minus_zero(WEIGHTS_PARAMETERS) {
    weights_honest(WEIGHTS_ARGUMENTS);
    for (int64_t i = begin; i < end; i++)
        if (!(bits->word[i / 64] >> (i % 64) & 1))
            w[i] = -0.0f;
}

static void weights_keeps_payload(WEIGHTS_PARAMETERS) {
    weights_honest(WEIGHTS_ARGUMENTS);
    for (int64_t i = begin; i < end; i++)
        if (float_is_nan(w[i]) && float_is_nan(s[i]))
            w[i] = s[i];
}

static void weights_reads_past_end(WEIGHTS_PARAMETERS) {
    weights_honest(WEIGHTS_ARGUMENTS);
    (void)((const volatile float *)s)[end];
}

/* ------------------------------------------------------------------------------------- merge, accumulate and finish -- */

#define MERGE_PARAMETERS int64_t rows, const float *m, const float *l, float *M, float *L, float *a, float *b

typedef enum merge_flaw { MERGE_HONEST, MERGE_LOW_IS_NAN, MERGE_UNFUSED, MERGE_KEEPS_OLD_MAX } merge_flaw;

static void merge_flawed(merge_flaw flaw, MERGE_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++) {
        const float highest = m[i] > M[i] && flaw != MERGE_KEEPS_OLD_MAX ? m[i] : M[i];
        const float base = highest == -INFINITY && flaw != MERGE_LOW_IS_NAN ? 0.0f : highest;
        a[i] = scalar_exp(M[i] - base);
        b[i] = scalar_exp(m[i] - base);
        L[i] = flaw == MERGE_UNFUSED ? L[i] * a[i] + l[i] * b[i] : fmaf(L[i], a[i], l[i] * b[i]);
        M[i] = highest;
    }
}

static void merge_honest(MERGE_PARAMETERS) { merge_flawed(MERGE_HONEST, rows, m, l, M, L, a, b); }
static void merge_low_is_nan(MERGE_PARAMETERS) { merge_flawed(MERGE_LOW_IS_NAN, rows, m, l, M, L, a, b); }
static void merge_unfused(MERGE_PARAMETERS) { merge_flawed(MERGE_UNFUSED, rows, m, l, M, L, a, b); }
static void merge_keeps_old_max(MERGE_PARAMETERS) { merge_flawed(MERGE_KEEPS_OLD_MAX, rows, m, l, M, L, a, b); }

static void accumulate_unfused(int64_t rows, int64_t n, const float *o, int64_t ldo, const float *a, const float *b,
                               float *O, int64_t ldO) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            O[i * ldO + j] = O[i * ldO + j] * a[i] + o[i * ldo + j] * b[i];
}

static void accumulate_next_row(int64_t rows, int64_t n, const float *o, int64_t ldo, const float *a, const float *b,
                                float *O, int64_t ldO) {
    honest(FV_OP_accumulate)->run.accumulate_f32(rows, n, o, ldo, a, b, O, ldO);
    (void)((const volatile float *)a)[rows];
}

#define FINISH_PARAMETERS                                                                                              \
    int64_t rows, int64_t n, const float *O, int64_t ldO, const float *M, const float *L, float *out, int64_t ldout,   \
        float *lse, int64_t ldlse

typedef enum finish_flaw { FINISH_HONEST, FINISH_DIVIDES, FINISH_MINUS_ZERO, FINISH_PAYLOAD, FINISH_LOG2 } finish_flaw;

static void finish_flawed(finish_flaw flaw, FINISH_PARAMETERS) {
    honest(FV_OP_finish)->run.finish_f32(rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            float *x = &out[i * ldout + j];
            const float from = O[i * ldO + j];
            if (flaw == FINISH_DIVIDES && *x != 0.0f && !float_is_nan(*x))
                *x = from / L[i];
            if (flaw == FINISH_MINUS_ZERO && *x == 0.0f && float_bits(from) == 0x80000000)
                *x = -0.0f;
            if (flaw == FINISH_PAYLOAD && float_is_nan(*x) && float_is_nan(from))
                *x = from;
        }
        if (flaw == FINISH_LOG2 && lse && L[i] > 1.0f)
            lse[i * ldlse] = M[i] + log2f(L[i]);
    }
}

static void finish_honest(FINISH_PARAMETERS) {
    finish_flawed(FINISH_HONEST, rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}
static void finish_divides(FINISH_PARAMETERS) {
    finish_flawed(FINISH_DIVIDES, rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}
static void finish_minus_zero(FINISH_PARAMETERS) {
    finish_flawed(FINISH_MINUS_ZERO, rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}
static void finish_payload(FINISH_PARAMETERS) {
    finish_flawed(FINISH_PAYLOAD, rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}
static void finish_log2(FINISH_PARAMETERS) {
    finish_flawed(FINISH_LOG2, rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
}

/* ---------------------------------------------------------------------------------------------------- bits and bias -- */

#define BITS_PARAMETERS int64_t begin, int64_t end, const uint8_t *mask, int64_t step, fv_keybits *bits

typedef enum bits_flaw { BITS_HONEST, BITS_ONE_ONLY, BITS_SETS, BITS_ONE_MORE } bits_flaw;

static void bits_flawed(bits_flaw flaw, BITS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        const uint64_t bit = (uint64_t)1 << (i % 64);
        const bool passes = flaw == BITS_ONE_ONLY ? mask[i * step] == 1 : mask[i * step] != 0;
        if (!passes)
            bits->word[i / 64] &= ~bit;
        else if (flaw == BITS_SETS)
            bits->word[i / 64] |= bit;
    }
    if (flaw == BITS_ONE_MORE && begin < end && end < FV_SEGMENT && mask[(end - 1) * step] == 0)
        bits->word[end / 64] &= ~((uint64_t)1 << (end % 64));
}

static void bits_honest(BITS_PARAMETERS) { bits_flawed(BITS_HONEST, begin, end, mask, step, bits); }
static void bits_one_only(BITS_PARAMETERS) { bits_flawed(BITS_ONE_ONLY, begin, end, mask, step, bits); }
static void bits_sets(BITS_PARAMETERS) { bits_flawed(BITS_SETS, begin, end, mask, step, bits); }
static void bits_one_more(BITS_PARAMETERS) { bits_flawed(BITS_ONE_MORE, begin, end, mask, step, bits); }

static void bits_reads_past_mask(BITS_PARAMETERS) {
    bits_honest(begin, end, mask, step, bits);
    if (begin < end)
        (void)((const volatile uint8_t *)mask)[(end - 1) * step + 1];
}

#define BIAS_PARAMETERS int64_t begin, int64_t end, const float *mask, int64_t step, float *s, fv_keybits *bits

static void bias_masks_below(float limit, BIAS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        s[i] += mask[i * step];
        if (mask[i * step] <= limit)
            bits->word[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
}

static void bias_honest(BIAS_PARAMETERS) { bias_masks_below(-INFINITY, begin, end, mask, step, s, bits); }
static void bias_masks_low(BIAS_PARAMETERS) { bias_masks_below(-1e30f, begin, end, mask, step, s, bits); }

static void bias_masks_by_sum(BIAS_PARAMETERS) { /* a score of -inf is not a mask of -inf */
    bias_honest(begin, end, mask, step, s, bits);
    for (int64_t i = begin; i < end; i++)
        if (s[i] == -INFINITY)
            bits->word[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static void bias_forgets_bits(BIAS_PARAMETERS) {
    fv_keybits scratch = *bits;
    bias_honest(begin, end, mask, step, s, &scratch);
}

/* -------------------------------------------------------------------------------------------------- finite and exp -- */

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

/* ------------------------------------------------------------------------------------------------------------- all -- */

/* FLUSHED: under flush-to-zero. */
typedef enum fate { PASSES, PASSES_FLUSHED, DIFFERS, DIFFERS_FLUSHED, DIFFERS_AS_REFERENCE } fate;

typedef struct mutant {
    fate fate;
    fv_kernel kernel; /* a scalar row; its name says what is wrong */
} mutant;

#define MUTANT(fate, op, type, mr, nr, function)                                                                       \
    {                                                                                                                  \
        fate, {                                                                                                        \
#function, FV_OP_##op, FV_TYPE_##type, FV_ISA_scalar, mr, nr, { .op##_##type = function }                  \
        }                                                                                                              \
    }

static const mutant mutants[] = {
    MUTANT(PASSES, gemm, f32, 4, 8, gemm_honest),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_last_column_missing),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_last_row_missing),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_chain_too_short),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_reads_past_b),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_reads_before_a),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_writes_past_c),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_writes_into_gap),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_writes_before_c),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_changes_input),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_needs_alignment),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_reads_old_c),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_first_factor_for_all),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_adds_blocks),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_sets_flush_to_zero),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_leaves_upper_dirty),
    MUTANT(DIFFERS, gemm, f32, 4, 8, gemm_loses_register),
    MUTANT(DIFFERS_AS_REFERENCE, gemm, f32, 4, 8, gemm_descending),
    MUTANT(DIFFERS_AS_REFERENCE, gemm, f32, 4, 8, gemm_split),
    MUTANT(DIFFERS_AS_REFERENCE, gemm, f32, 4, 8, gemm_unfused),
    MUTANT(DIFFERS, gemmskip, f32, 1, 8, gemm_honest),
    MUTANT(DIFFERS, gemmskip, f32, 1, 8, gemmskip_skips_positive_zero),
    MUTANT(PASSES_FLUSHED, scale, f32, 1, 1, scale_honest),
    MUTANT(PASSES, scale, f32, 1, 1, scale_keeps_subnormal),
    MUTANT(DIFFERS_FLUSHED, scale, f32, 1, 1, scale_keeps_subnormal),
    MUTANT(PASSES, pack, f32, 1, 1, pack_honest),
    MUTANT(DIFFERS, pack, f32, 1, 1, pack_repeats_last_key),
    MUTANT(DIFFERS, pack, f32, 1, 1, pack_zeroes_whole_width),
    MUTANT(DIFFERS, pack, f32, 1, 1, pack_quiets_nan),
    MUTANT(PASSES, softmax, f32, 1, 16, softmax_honest),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_max_of_all),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_mask_as_plus_zero),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_nan_is_nothing),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_low_is_nan),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_first_bits),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_bits_from_zero),
    MUTANT(DIFFERS_AS_REFERENCE, softmax, f32, 1, 16, softmax_plain_sum),
    MUTANT(DIFFERS_AS_REFERENCE, softmax, f32, 1, 16, softmax_lanes_in_pairs),
    MUTANT(DIFFERS_AS_REFERENCE, softmax, f32, 1, 16, softmax_no_max),
    MUTANT(PASSES, weights, f32, 1, 8, weights_honest),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_mask_is_minus_zero),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_keeps_payload),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_reads_past_end),
    MUTANT(PASSES, merge, f32, 8, 1, merge_honest),
    MUTANT(DIFFERS, merge, f32, 8, 1, merge_low_is_nan),
    MUTANT(DIFFERS_AS_REFERENCE, merge, f32, 8, 1, merge_unfused),
    MUTANT(DIFFERS_AS_REFERENCE, merge, f32, 8, 1, merge_keeps_old_max),
    MUTANT(DIFFERS_AS_REFERENCE, accumulate, f32, 1, 8, accumulate_unfused),
    MUTANT(DIFFERS, accumulate, f32, 1, 8, accumulate_next_row),
    MUTANT(PASSES, finish, f32, 1, 8, finish_honest),
    MUTANT(DIFFERS_AS_REFERENCE, finish, f32, 1, 8, finish_divides),
    MUTANT(DIFFERS_AS_REFERENCE, finish, f32, 1, 8, finish_minus_zero),
    MUTANT(DIFFERS, finish, f32, 1, 8, finish_payload),
    MUTANT(DIFFERS_AS_REFERENCE, finish, f32, 1, 8, finish_log2),
    MUTANT(PASSES, bits, u8, 1, 64, bits_honest),
    MUTANT(DIFFERS, bits, u8, 1, 64, bits_one_only),
    MUTANT(DIFFERS, bits, u8, 1, 64, bits_sets),
    MUTANT(DIFFERS_AS_REFERENCE, bits, u8, 1, 64, bits_one_more),
    MUTANT(DIFFERS, bits, u8, 1, 64, bits_reads_past_mask),
    MUTANT(PASSES, bias, f32, 1, 8, bias_honest),
    MUTANT(DIFFERS, bias, f32, 1, 8, bias_masks_low),
    MUTANT(DIFFERS, bias, f32, 1, 8, bias_masks_by_sum),
    MUTANT(DIFFERS_AS_REFERENCE, bias, f32, 1, 8, bias_forgets_bits),
    MUTANT(PASSES, finite, f32, 1, 8, finite_honest),
    MUTANT(DIFFERS, finite, f32, 1, 8, finite_misses_last),
    MUTANT(DIFFERS_AS_REFERENCE, finite, f32, 1, 8, finite_by_sum),
    MUTANT(DIFFERS, finite, f32, 1, 8, finite_reads_gaps),
    MUTANT(PASSES, after, f32, 1, 8, after_honest),
    MUTANT(DIFFERS_AS_REFERENCE, after, f32, 1, 8, after_residual_first),
    MUTANT(DIFFERS_AS_REFERENCE, after, f32, 1, 8, after_other_gelu),
    MUTANT(PASSES, exp, f32, 1, 8, exp_honest),
    MUTANT(DIFFERS, exp, f32, 1, 8, exp_other_rounding),
    MUTANT(DIFFERS_AS_REFERENCE, exp, f32, 1, 8, exp_keeps_subnormal),
    MUTANT(DIFFERS, exp, f32, 1, 8, exp_reads_again),
};

/* Whether a mutant can be seen to do on this CPU what it does wrong. */
static bool can_be_seen(const mutant *m) {
    fv_gemm_f32_fn *function = m->kernel.run.gemm_f32;
    if (m->fate == PASSES_FLUSHED || m->fate == DIFFERS_FLUSHED)
        return FP_FLUSH != 0;
    return function == gemm_sets_flush_to_zero   ? abi_breakable(ABI_CONTROL)
           : function == gemm_leaves_upper_dirty ? abi_breakable(ABI_UPPER)
           : function == gemm_loses_register     ? abi_registers() > 0
                                                 : true;
}

void check_mutants(uint64_t seed) {
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        const mutant *m = &mutants[i];
        const char *name = m->kernel.name;
        checker c = {.kernel = &m->kernel, .seed = seed, .quiet = true};
        c.flush = m->fate == PASSES_FLUSHED || m->fate == DIFFERS_FLUSHED;
        c.reference = m->fate == DIFFERS_AS_REFERENCE ? &m->kernel : honest(m->kernel.op);
        if (!can_be_seen(m)) {
            test_skip("%s: cannot be seen on this CPU", name);
            continue;
        }
        check_kernel(&c);
        if (m->fate == PASSES || m->fate == PASSES_FLUSHED)
            test_check(c.failed == 0, "%s is not broken, yet: %s", name, c.first_failure);
        else if (test_check(c.failed > 0, "%s was not caught by %" PRId64 " calls", name, c.trials))
            printf("caught  %-30s by call %5" PRId64 ": %s\n", name, c.trials, c.first_failure);
    }
}
