/* Mutants of bits and bias. */
#include "mutants.h"

/* ---------------------------------------------------------------------------------------------------------- bits -- */

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

/* ---------------------------------------------------------------------------------------------------------- bias -- */

#define BIAS_PARAMETERS int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits

static void bias_masks_below(float limit, BIAS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        const float scaled = c * s[i];
        s[i] = scaled + mask[i * step];
        if (mask[i * step] <= limit)
            bits->word[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
}

static void bias_honest(BIAS_PARAMETERS) { bias_masks_below(-INFINITY, begin, end, mask, step, c, s, bits); }
static void bias_masks_low(BIAS_PARAMETERS) { bias_masks_below(-1e30f, begin, end, mask, step, c, s, bits); }

static void bias_masks_by_sum(BIAS_PARAMETERS) { /* a score of -inf is not a mask of -inf */
    bias_honest(begin, end, mask, step, c, s, bits);
    for (int64_t i = begin; i < end; i++)
        if (s[i] == -INFINITY)
            bits->word[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static void bias_forgets_bits(BIAS_PARAMETERS) {
    fv_keybits scratch = *bits;
    bias_honest(begin, end, mask, step, c, s, &scratch);
}

static void bias_rounds_once(BIAS_PARAMETERS) {
    fv_keybits before = *bits;
    float sum[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++)
        sum[i] = fmaf(c, s[i], mask[i * step]);
    bias_honest(begin, end, mask, step, c, s, &before);
    *bits = before;
    memcpy(s + begin, sum + begin, (size_t)(end - begin) * sizeof *s);
}

static void bias_adds_unscaled(BIAS_PARAMETERS) { bias_honest(begin, end, mask, step, 1.0f + 0.0f * c, s, bits); }

/* ----------------------------------------------------------------------------------------------------------- all -- */

static const mutant mutants[] = {
    MUTANT(PASSES, mask_to_bits, u8, 1, 64, bits_honest),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, bits_one_only),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, bits_sets),
    MUTANT(DIFFERS_AS_REFERENCE, mask_to_bits, u8, 1, 64, bits_one_more),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, bits_reads_past_mask),
    MUTANT(PASSES, add_mask, f32, 1, 8, bias_honest),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, bias_masks_low),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, bias_masks_by_sum),
    MUTANT(DIFFERS_AS_REFERENCE, add_mask, f32, 1, 8, bias_forgets_bits),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, bias_rounds_once),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, bias_adds_unscaled),
};

const mutant_table mutants_mask = {mutants, sizeof mutants / sizeof mutants[0]};
