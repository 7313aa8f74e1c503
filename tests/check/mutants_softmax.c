/* Mutants of softmax and weights. */
#include "mutants.h"

/* ------------------------------------------------------------------------------------------------------- softmax -- */

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
    SOFTMAX_NO_MAX,            /* exp(s) instead of exp(s - m) */
    SOFTMAX_KNOWN_ONLY,        /* the maximum of the columns that are row_max_end */
    SOFTMAX_KNOWN_FORGOTTEN,   /* of the others */
    SOFTMAX_LANES_TRUSTED,     /* none is row_max_end */
    SOFTMAX_ALWAYS_NORMAL,     /* p of what is further down than exp goes: as if normal said it is not there */
    SOFTMAX_IN_PLACE,          /* p over s, wherever p is to be */
    SOFTMAX_UNSCALED,          /* c left out */
    SOFTMAX_ROUNDS_ONCE        /* c * s - m */
} softmax_flaw;

static void softmax_row(softmax_flaw flaw, const fv_softmax_f32_args *x, int64_t row) {
    const int64_t begin = x->begin, end = x->end, row_max_end = x->row_max_end;
    const float *s = x->s + row * x->lds, *lanes = x->lanes + row * FV_LANES;
    const fv_keybits *bits = x->bits ? x->bits + (flaw == SOFTMAX_FIRST_BITS ? 0 : row * x->bits_step) : NULL;
    float *to = flaw == SOFTMAX_IN_PLACE ? (float *)(uintptr_t)s : x->p + row * x->ldp, *m = x->m + row;
    const float c = flaw == SOFTMAX_UNSCALED ? 1.0f : x->c;
    const int64_t shift = flaw == SOFTMAX_BITS_FROM_ZERO ? begin : 0;
    float row_max = -INFINITY, lane[FV_LANES] = {0.0f};
    bool seen[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++) {
        seen[i] = !bits || (bits->word[(i - shift) / 64] >> ((i - shift) % 64) & 1);
        const bool counts = flaw == SOFTMAX_KNOWN_ONLY        ? row_max_end == begin || i < row_max_end
                            : flaw == SOFTMAX_KNOWN_FORGOTTEN ? i >= row_max_end
                                                              : true;
        if ((seen[i] || flaw == SOFTMAX_MAX_OF_ALL) && counts && c * s[i] > row_max)
            row_max = c * s[i];
    }
    for (int j = 0; j < FV_LANES && flaw == SOFTMAX_LANES_TRUSTED; j++)
        row_max = row_max > c * lanes[j] ? row_max : c * lanes[j];
    *m = flaw == SOFTMAX_NO_MAX ? 0.0f : row_max;
    for (int64_t i = begin; i < end; i++) {
        const float base = *m == -INFINITY && flaw != SOFTMAX_LOW_IS_NAN ? 0.0f : *m;
        const float score = c * s[i], less = flaw == SOFTMAX_ROUNDS_ONCE ? fmaf(c, s[i], -base) : score - base;
        float p = seen[i] ? scalar_exp(less) : flaw == SOFTMAX_MASK_AS_PLUS_ZERO ? 0.0f : -0.0f;
        if (flaw == SOFTMAX_ALWAYS_NORMAL && seen[i] && p == 0.0f)
            p = (float)exp((double)score - base);
        if (flaw == SOFTMAX_NAN_IS_NOTHING && float_is_nan(p))
            p = 0.0f;
        to[i] = p;
        lane[flaw == SOFTMAX_PLAIN_SUM ? 0 : i % FV_LANES] += p;
    }
    for (int step = 1; flaw == SOFTMAX_LANES_IN_PAIRS && step < FV_LANES; step *= 2)
        for (int j = 0; j < FV_LANES; j += 2 * step)
            lane[j] += lane[j + step];
    for (int half = FV_LANES / 2; flaw != SOFTMAX_LANES_IN_PAIRS && half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    x->l[row] = lane[0];
}

static void softmax_flawed(softmax_flaw flaw,
                           const fv_softmax_f32_args *x) { /* no_underflow says no more than the scores do */
    for (int64_t i = 0; i < x->rows; i++)
        softmax_row(flaw, x, i);
}

static void softmax_honest(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_HONEST, x); }
static void softmax_max_of_all(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_MAX_OF_ALL, x); }
static void softmax_mask_as_plus_zero(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_MASK_AS_PLUS_ZERO, x); }
static void softmax_nan_is_nothing(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_NAN_IS_NOTHING, x); }
static void softmax_low_is_nan(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_LOW_IS_NAN, x); }
static void softmax_first_bits(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_FIRST_BITS, x); }
static void softmax_bits_from_zero(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_BITS_FROM_ZERO, x); }
static void softmax_plain_sum(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_PLAIN_SUM, x); }
static void softmax_lanes_in_pairs(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_LANES_IN_PAIRS, x); }
static void softmax_no_max(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_NO_MAX, x); }
static void softmax_known_only(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_KNOWN_ONLY, x); }
static void softmax_known_forgotten(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_KNOWN_FORGOTTEN, x); }
static void softmax_lanes_trusted(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_LANES_TRUSTED, x); }
static void softmax_always_normal(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_ALWAYS_NORMAL, x); }
static void softmax_in_place(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_IN_PLACE, x); }
static void softmax_unscaled(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_UNSCALED, x); }
static void softmax_rounds_once(const fv_softmax_f32_args *x) { softmax_flawed(SOFTMAX_ROUNDS_ONCE, x); }

/* bfloat16: p as pairs. */
static void softmax_in_pairs(const fv_softmax_f32_args *x) {
    fv_kernel_scalar(FV_OP_softmax, FV_TYPE_bf16)->run.softmax_bf16(x);
}

static void softmax_pairs_swapped(const fv_softmax_f32_args *x) {
    softmax_in_pairs(x);
    for (int64_t i = 0; i < x->rows && x->paired; i++)
        for (int64_t j = x->begin / 2; j < x->end / 2; j++) {
            const uint32_t word = float_bits(x->p[i * x->ldp + j]);
            x->p[i * x->ldp + j] = bits_float(word << 16 | word >> 16);
        }
}

static void softmax_pairs_keep_lows(const fv_softmax_f32_args *x) {
    softmax_in_pairs(x);
    for (int64_t j = x->begin / 2; j < x->end / 2 && x->paired; j++)
        x->p[j] = bits_float(float_bits(x->p[j]) | 1);
}

/* ------------------------------------------------------------------------------------------------------- weights -- */

#define WEIGHTS_PARAMETERS                                                                                             \
    int64_t begin, int64_t end, const float *s, float c, float lse, const fv_keybits *bits, float *w
#define WEIGHTS_ARGUMENTS begin, end, s, c, lse, bits, w

static void weights_honest(WEIGHTS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        const bool seen = (bits->word[i / 64] >> (i % 64) & 1) && lse != -INFINITY;
        const float score = c * s[i], p = seen ? scalar_exp(score - lse) : 0.0f;
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

static void weights_unscaled(WEIGHTS_PARAMETERS) { weights_honest(begin, end, s, 1.0f + 0.0f * c, lse, bits, w); }

static void weights_reads_past_end(WEIGHTS_PARAMETERS) {
    weights_honest(WEIGHTS_ARGUMENTS);
    (void)((const volatile float *)s)[end];
}

/* ----------------------------------------------------------------------------------------------------------- all -- */

static const mutant mutants[] = {
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
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_known_only),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_known_forgotten),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_lanes_trusted),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_always_normal),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_in_place),
    MUTANT(DIFFERS, softmax, f32, 1, 16, softmax_unscaled),
    MUTANT(DIFFERS_AS_REFERENCE, softmax, f32, 1, 16, softmax_rounds_once),
    MUTANT(PASSES, softmax, bf16, 1, 16, softmax_in_pairs),
    MUTANT(DIFFERS, softmax, bf16, 1, 16, softmax_pairs_swapped),
    MUTANT(DIFFERS, softmax, bf16, 1, 16, softmax_pairs_keep_lows),
    MUTANT(PASSES, weights, f32, 1, 8, weights_honest),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_mask_is_minus_zero),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_keeps_payload),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_reads_past_end),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_unscaled),
};

const mutant_table mutants_softmax = {mutants, sizeof mutants / sizeof mutants[0]};
