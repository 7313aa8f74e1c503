/* Mutants of merge, accumulate and finish. */
#include "mutants.h"

/* --------------------------------------------------------------------------------------------------------- merge -- */

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

/* ---------------------------------------------------------------------------------------------------- accumulate -- */

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

/* -------------------------------------------------------------------------------------------------------- finish -- */

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

/* ----------------------------------------------------------------------------------------------------------- all -- */

static const mutant mutants[] = {
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
};

const mutant_table mutants_merge = {mutants, sizeof mutants / sizeof mutants[0]};
