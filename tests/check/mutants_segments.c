/* Mutants of what an attention does with scores segment by segment: softmax, merge, accumulate, finish, masks. */
#include "mutants.h"

typedef enum segments_flaw {
    HONEST,
    MASK_AS_PLUS_ZERO, /* p = +0 where masked */
    NAN_IS_NOTHING,    /* p = 0 for a NaN score */
    LOW_IS_NAN,        /* -inf minus -inf */
    PLAIN_SUM,         /* one lane */
    LANES_IN_PAIRS,    /* neighbouring lanes first */
    NO_MAX,            /* exp(s) instead of exp(s - m) */
    KNOWN_ONLY,        /* the maximum of the columns that are row_max_end */
    KNOWN_FORGOTTEN,   /* of the others */
    LANES_TRUSTED,     /* none is row_max_end */
    ALWAYS_NORMAL,     /* p of what is further down than exp goes: as if normal said it is not there */
    ROUNDS_ONCE,       /* c * s - m, or c * s + mask */
    KEEPS_LOWS,        /* of pairs */
    MASKED_TO_ZERO,    /* -0 */
    PAYLOAD,           /* of a NaN */
    UNFUSED,
    OLD_MAX,
    DIVIDES,
    MINUS_ZERO,
    LOG2,
    ONE_ONLY, /* of bytes that are not 0 */
    SETS,
    MASKS_LOW,    /* where the mask is below -1e30 */
    MASKS_BY_SUM, /* a score of -inf is not a mask of -inf */
    MAXIMA_OF_ALL /* of keys that were masked before, too */
} segments_flaw;

static void softmax_row(const fv_softmax_f32_args *x, int64_t row) {
    const int64_t begin = x->begin, end = x->end, row_max_end = x->row_max_end;
    const float *s = x->s + row * x->lds, *lanes = x->lanes + row * FV_LANES, c = x->c;
    const fv_keybits *bits = x->bits ? x->bits + row * x->bits_step : NULL;
    float *to = x->p + row * x->ldp, *m = x->m + row, row_max = -INFINITY, lane[FV_LANES] = {0.0f};
    bool attended[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++) {
        attended[i] = !bits || (bits->word[i / 64] >> (i % 64) & 1);
        const bool counts = flaw == KNOWN_ONLY        ? row_max_end == begin || i < row_max_end
                            : flaw == KNOWN_FORGOTTEN ? i >= row_max_end
                                                      : true;
        if ((attended[i] || flaw == MAXIMA_OF_ALL) && counts && c * s[i] > row_max)
            row_max = c * s[i];
    }
    for (int j = 0; j < FV_LANES && flaw == LANES_TRUSTED; j++)
        row_max = row_max > c * lanes[j] ? row_max : c * lanes[j];
    *m = flaw == NO_MAX ? 0.0f : row_max;
    for (int64_t i = begin; i < end; i++) {
        const float base = *m == -INFINITY && flaw != LOW_IS_NAN ? 0.0f : *m;
        const float score = c * s[i], less = flaw == ROUNDS_ONCE ? fmaf(c, s[i], -base) : score - base;
        float p = attended[i] ? scalar_exp(less) : flaw == MASK_AS_PLUS_ZERO ? 0.0f : -0.0f;
        if (flaw == ALWAYS_NORMAL && attended[i] && p == 0.0f)
            p = (float)exp((double)score - base);
        to[i] = flaw == NAN_IS_NOTHING && float_is_nan(p) ? 0.0f : p;
        lane[flaw == PLAIN_SUM ? 0 : i % FV_LANES] += to[i];
    }
    for (int step = 1; flaw == LANES_IN_PAIRS && step < FV_LANES; step *= 2)
        for (int j = 0; j < FV_LANES; j += 2 * step)
            lane[j] += lane[j + step];
    for (int half = FV_LANES / 2; flaw != LANES_IN_PAIRS && half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    x->l[row] = lane[0];
}

static void softmax(const fv_softmax_f32_args *x) { /* no_underflow says no more than the scores do */
    for (int64_t i = 0; i < x->rows; i++)
        softmax_row(x, i);
}

static void softmax_bf16(const fv_softmax_f32_args *x) { /* p as pairs */
    fv_kernel_scalar(FV_OP_softmax, FV_TYPE_bf16)->run.softmax_bf16(x);
    for (int64_t j = x->begin / 2; j < x->end / 2 && x->paired && flaw == KEEPS_LOWS; j++)
        x->p[j] = bits_float(float_bits(x->p[j]) | 1);
}

static void weights(int64_t begin, int64_t end, const float *s, float c, float lse, const fv_keybits *bits, float *w) {
    for (int64_t i = begin; i < end; i++) {
        const bool attended = bits->word[i / 64] >> (i % 64) & 1;
        const float p = attended && lse != -INFINITY ? scalar_exp(c * s[i] - lse) : 0.0f;
        w[i] = float_is_nan(p) ? bits_float(CANONICAL_NAN) : p;
        if (flaw == PAYLOAD && float_is_nan(p) && float_is_nan(s[i]))
            w[i] = s[i];
        if (flaw == MASKED_TO_ZERO && !attended)
            w[i] = -0.0f;
    }
}

static void merge(int64_t rows, const float *m, const float *l, float *M, float *L, float *a, float *b) {
    for (int64_t i = 0; i < rows; i++) {
        const float most = m[i] > M[i] && flaw != OLD_MAX ? m[i] : M[i];
        const float base = most == -INFINITY && flaw != LOW_IS_NAN ? 0.0f : most;
        a[i] = scalar_exp(M[i] - base);
        b[i] = scalar_exp(m[i] - base);
        L[i] = flaw == UNFUSED ? L[i] * a[i] + l[i] * b[i] : fmaf(L[i], a[i], l[i] * b[i]);
        M[i] = most;
    }
}

static void accumulate(int64_t rows, int64_t n, const float *o, int64_t ldo, const float *a, const float *b, float *O,
                       int64_t ldO) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            float *to = &O[i * ldO + j];
            const float add = o[i * ldo + j] * b[i];
            *to = flaw == UNFUSED ? *to * a[i] + add : fmaf(*to, a[i], add);
        }
}

static void finish(int64_t rows, int64_t n, const float *O, int64_t ldO, const float *M, const float *L, float *out,
                   int64_t ldout, float *lse, int64_t ldlse) {
    honest(FV_OP_finish)->run.finish_f32(rows, n, O, ldO, M, L, out, ldout, lse, ldlse);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            float *x = &out[i * ldout + j];
            const float from = O[i * ldO + j];
            if (flaw == DIVIDES && *x != 0.0f && !float_is_nan(*x))
                *x = from / L[i];
            if (flaw == MINUS_ZERO && *x == 0.0f && float_bits(from) == 0x80000000)
                *x = -0.0f;
            if (flaw == PAYLOAD && float_is_nan(*x) && float_is_nan(from))
                *x = from;
        }
        if (flaw == LOG2 && lse && L[i] > 1.0f)
            lse[i * ldlse] = M[i] + log2f(L[i]);
    }
}

static void mask_to_bits(int64_t begin, int64_t end, const uint8_t *mask, int64_t step, fv_keybits *bits) {
    for (int64_t i = begin; i < end; i++) {
        const uint64_t bit = (uint64_t)1 << (i % 64);
        if (mask[i * step] == 0 || (flaw == ONE_ONLY && mask[i * step] != 1))
            bits->word[i / 64] &= ~bit;
        else if (flaw == SETS)
            bits->word[i / 64] |= bit;
    }
}

static int add_mask(int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits,
                    float *row_max) {
    const float limit = flaw == MASKS_LOW ? -1e30f : -INFINITY;
    int cleared = 0;
    for (int64_t j = 0; j < FV_LANES; j++)
        row_max[j] = -INFINITY;
    for (int64_t i = begin; i < end; i++) {
        const uint64_t bit = (uint64_t)1 << (i % 64);
        const int attended = (bits->word[i / 64] & bit) != 0, masks = mask[i * step] <= limit;
        const float scaled = c * s[i];
        s[i] = flaw == ROUNDS_ONCE ? fmaf(c, s[i], mask[i * step]) : scaled + mask[i * step];
        cleared |= attended && masks;
        if (masks || (flaw == MASKS_BY_SUM && s[i] == -INFINITY))
            bits->word[i / 64] &= ~bit;
        if ((flaw == MAXIMA_OF_ALL || (attended && !masks)) && s[i] > row_max[i % FV_LANES])
            row_max[i % FV_LANES] = s[i];
    }
    return cleared;
}

static const mutant mutants[] = {
    MUTANT(PASSES, HONEST, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, MAXIMA_OF_ALL, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, MASK_AS_PLUS_ZERO, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, NAN_IS_NOTHING, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, LOW_IS_NAN, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS_AS_REFERENCE, PLAIN_SUM, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS_AS_REFERENCE, LANES_IN_PAIRS, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS_AS_REFERENCE, NO_MAX, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, KNOWN_ONLY, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, KNOWN_FORGOTTEN, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, LANES_TRUSTED, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS, ALWAYS_NORMAL, softmax, f32, 1, 16, softmax),
    MUTANT(DIFFERS_AS_REFERENCE, ROUNDS_ONCE, softmax, f32, 1, 16, softmax),
    MUTANT(PASSES, HONEST, softmax, bf16, 1, 16, softmax_bf16),
    MUTANT(DIFFERS, KEEPS_LOWS, softmax, bf16, 1, 16, softmax_bf16),
    MUTANT(PASSES, HONEST, weights, f32, 1, 8, weights),
    MUTANT(DIFFERS, MASKED_TO_ZERO, weights, f32, 1, 8, weights),
    MUTANT(DIFFERS, PAYLOAD, weights, f32, 1, 8, weights),
    MUTANT(PASSES, HONEST, merge, f32, 8, 1, merge),
    MUTANT(DIFFERS, LOW_IS_NAN, merge, f32, 8, 1, merge),
    MUTANT(DIFFERS_AS_REFERENCE, UNFUSED, merge, f32, 8, 1, merge),
    MUTANT(DIFFERS_AS_REFERENCE, OLD_MAX, merge, f32, 8, 1, merge),
    MUTANT(PASSES, HONEST, accumulate, f32, 1, 8, accumulate),
    MUTANT(DIFFERS_AS_REFERENCE, UNFUSED, accumulate, f32, 1, 8, accumulate),
    MUTANT(PASSES, HONEST, finish, f32, 1, 8, finish),
    MUTANT(DIFFERS_AS_REFERENCE, DIVIDES, finish, f32, 1, 8, finish),
    MUTANT(DIFFERS_AS_REFERENCE, MINUS_ZERO, finish, f32, 1, 8, finish),
    MUTANT(DIFFERS, PAYLOAD, finish, f32, 1, 8, finish),
    MUTANT(DIFFERS_AS_REFERENCE, LOG2, finish, f32, 1, 8, finish),
    MUTANT(PASSES, HONEST, mask_to_bits, u8, 1, 64, mask_to_bits),
    MUTANT(DIFFERS, ONE_ONLY, mask_to_bits, u8, 1, 64, mask_to_bits),
    MUTANT(DIFFERS, SETS, mask_to_bits, u8, 1, 64, mask_to_bits),
    MUTANT(PASSES, HONEST, add_mask, f32, 1, 8, add_mask),
    MUTANT(DIFFERS, MASKS_LOW, add_mask, f32, 1, 8, add_mask),
    MUTANT(DIFFERS, MASKS_BY_SUM, add_mask, f32, 1, 8, add_mask),
    MUTANT(DIFFERS, ROUNDS_ONCE, add_mask, f32, 1, 8, add_mask),
    MUTANT(DIFFERS, MAXIMA_OF_ALL, add_mask, f32, 1, 8, add_mask),
};

const mutant_table mutants_segments = {mutants, sizeof mutants / sizeof mutants[0]};
