/* Mutants of weight_sums. */
#include "mutants.h"

#define PARAMETERS                                                                                                     \
    int64_t rows, int64_t begin, int64_t end, const float *s, int64_t lds, float c, const float *lse,                  \
        const fv_keybits *bits, int64_t bits_step, float *sums
#define ARGUMENTS rows, begin, end, s, lds, c, lse, bits, bits_step, sums

static void weight_sums_honest(PARAMETERS) { honest(FV_OP_weight_sums)->run.weight_sums_f32(ARGUMENTS); }

static void weight_sums_last_row_first(PARAMETERS) {
    for (int64_t i = rows - 1; i >= 0; i--)
        weight_sums_honest(1, begin, end, s + i * lds, lds, c, lse + i, bits ? bits + i * bits_step : NULL, 0, sums);
}

static void weight_sums_starts_from_zero(PARAMETERS) {
    for (int64_t i = begin; i < end; i++)
        sums[i] = 0.0f;
    weight_sums_honest(ARGUMENTS);
}

static void weight_sums_misses_last_row(PARAMETERS) {
    weight_sums_honest(rows > 0 ? rows - 1 : 0, begin, end, s, lds, c, lse, bits, bits_step, sums);
}

static void weight_sums_ignores_bits(PARAMETERS) {
    (void)bits;
    weight_sums_honest(rows, begin, end, s, lds, c, lse, NULL, 0 * bits_step, sums);
}

static void weight_sums_first_bits(PARAMETERS) {
    weight_sums_honest(rows, begin, end, s, lds, c, lse, bits, 0 * bits_step, sums);
}

static void weight_sums_one_lse(PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        weight_sums_honest(1, begin, end, s + i * lds, lds, c, lse, bits ? bits + i * bits_step : NULL, 0, sums);
}

static void weight_sums_unscaled(PARAMETERS) {
    weight_sums_honest(rows, begin, end, s, lds, 1.0f + 0.0f * c, lse, bits, bits_step, sums);
}

static const mutant mutants[] = {
    MUTANT(PASSES, weight_sums, f32, 1, 1, weight_sums_honest),
    MUTANT(PASSES_FLUSHED, weight_sums, f32, 1, 1, weight_sums_honest),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_last_row_first),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_starts_from_zero),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_misses_last_row),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_ignores_bits),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_first_bits),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_one_lse),
    MUTANT(DIFFERS, weight_sums, f32, 1, 1, weight_sums_unscaled),
    MUTANT(DIFFERS_AS_REFERENCE, weight_sums, f32, 1, 1, weight_sums_last_row_first),
};

const mutant_table mutants_weight_sums = {mutants, sizeof mutants / sizeof mutants[0]};
