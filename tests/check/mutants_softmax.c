/* Mutants of softmax and weights. */
#include "mutants.h"

/* ------------------------------------------------------------------------------------------------------- softmax -- */

#define SOFTMAX_PARAMETERS                                                                                             \
    int64_t rows, int64_t begin, int64_t end, float *s, int64_t lds, const fv_keybits *bits, int64_t bits_step,        \
        int64_t row_max_end, int no_underflow, float *lanes, float *m, float *l
#define SOFTMAX_ARGUMENTS rows, begin, end, s, lds, bits, bits_step, row_max_end, no_underflow, lanes, m, l

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
    SOFTMAX_ALWAYS_NORMAL      /* p of what is further down than exp goes: as if normal said it is not there */
} softmax_flaw;

static void softmax_row(softmax_flaw flaw, int64_t begin, int64_t end, float *s, const fv_keybits *bits,
                        int64_t row_max_end, const float *lanes, float *m, float *l) {
    const int64_t shift = flaw == SOFTMAX_BITS_FROM_ZERO ? begin : 0;
    float row_max = -INFINITY, lane[FV_LANES] = {0.0f};
    bool seen[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++) {
        seen[i] = !bits || (bits->word[(i - shift) / 64] >> ((i - shift) % 64) & 1);
        const bool counts = flaw == SOFTMAX_KNOWN_ONLY        ? row_max_end == begin || i < row_max_end
                            : flaw == SOFTMAX_KNOWN_FORGOTTEN ? i >= row_max_end
                                                              : true;
        if ((seen[i] || flaw == SOFTMAX_MAX_OF_ALL) && counts && s[i] > row_max)
            row_max = s[i];
    }
    for (int j = 0; j < FV_LANES && flaw == SOFTMAX_LANES_TRUSTED; j++)
        row_max = row_max > lanes[j] ? row_max : lanes[j];
    *m = flaw == SOFTMAX_NO_MAX ? 0.0f : row_max;
    for (int64_t i = begin; i < end; i++) {
        const float base = *m == -INFINITY && flaw != SOFTMAX_LOW_IS_NAN ? 0.0f : *m;
        float p = seen[i] ? scalar_exp(s[i] - base) : flaw == SOFTMAX_MASK_AS_PLUS_ZERO ? 0.0f : -0.0f;
        if (flaw == SOFTMAX_ALWAYS_NORMAL && seen[i] && p == 0.0f)
            p = (float)exp((double)s[i] - base);
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
    (void)no_underflow; /* says no more than the scores do */
    for (int64_t i = 0; i < rows; i++)
        softmax_row(flaw, begin, end, s + i * lds,
                    bits ? bits + (flaw == SOFTMAX_FIRST_BITS ? 0 : i * bits_step) : NULL, row_max_end,
                    lanes + i * FV_LANES, m + i, l + i);
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
static void softmax_known_only(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_KNOWN_ONLY, SOFTMAX_ARGUMENTS); }
static void softmax_known_forgotten(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_KNOWN_FORGOTTEN, SOFTMAX_ARGUMENTS); }
static void softmax_lanes_trusted(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_LANES_TRUSTED, SOFTMAX_ARGUMENTS); }
static void softmax_always_normal(SOFTMAX_PARAMETERS) { softmax_flawed(SOFTMAX_ALWAYS_NORMAL, SOFTMAX_ARGUMENTS); }

/* ------------------------------------------------------------------------------------------------------- weights -- */

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
    MUTANT(PASSES, weights, f32, 1, 8, weights_honest),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_mask_is_minus_zero),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_keeps_payload),
    MUTANT(DIFFERS, weights, f32, 1, 8, weights_reads_past_end),
};

const mutant_table mutants_softmax = {mutants, sizeof mutants / sizeof mutants[0]};
