/* Mutants of mask_to_bits and add_mask. */
#include "mutants.h"

/* ------------------------------------------------------------------------------------------------- mask_to_bits -- */

#define MASK_TO_BITS_PARAMETERS int64_t begin, int64_t end, const uint8_t *mask, int64_t step, fv_keybits *bits

typedef enum mask_to_bits_flaw {
    MASK_TO_BITS_HONEST,
    MASK_TO_BITS_ONE_ONLY,
    MASK_TO_BITS_SETS,
    MASK_TO_BITS_ONE_MORE
} mask_to_bits_flaw;

static void mask_to_bits_flawed(mask_to_bits_flaw flaw, MASK_TO_BITS_PARAMETERS) {
    for (int64_t i = begin; i < end; i++) {
        const uint64_t bit = (uint64_t)1 << (i % 64);
        const bool passes = flaw == MASK_TO_BITS_ONE_ONLY ? mask[i * step] == 1 : mask[i * step] != 0;
        if (!passes)
            bits->word[i / 64] &= ~bit;
        else if (flaw == MASK_TO_BITS_SETS)
            bits->word[i / 64] |= bit;
    }
    if (flaw == MASK_TO_BITS_ONE_MORE && begin < end && end < FV_SEGMENT && mask[(end - 1) * step] == 0)
        bits->word[end / 64] &= ~((uint64_t)1 << (end % 64));
}

static void mask_to_bits_honest(MASK_TO_BITS_PARAMETERS) {
    mask_to_bits_flawed(MASK_TO_BITS_HONEST, begin, end, mask, step, bits);
}
static void mask_to_bits_one_only(MASK_TO_BITS_PARAMETERS) {
    mask_to_bits_flawed(MASK_TO_BITS_ONE_ONLY, begin, end, mask, step, bits);
}
static void mask_to_bits_sets(MASK_TO_BITS_PARAMETERS) {
    mask_to_bits_flawed(MASK_TO_BITS_SETS, begin, end, mask, step, bits);
}
static void mask_to_bits_one_more(MASK_TO_BITS_PARAMETERS) {
    mask_to_bits_flawed(MASK_TO_BITS_ONE_MORE, begin, end, mask, step, bits);
}

static void mask_to_bits_reads_past_mask(MASK_TO_BITS_PARAMETERS) {
    mask_to_bits_honest(begin, end, mask, step, bits);
    if (begin < end)
        (void)((const volatile uint8_t *)mask)[(end - 1) * step + 1];
}

/* ------------------------------------------------------------------------------------------------------ add_mask -- */

#define ADD_MASK_PARAMETERS                                                                                            \
    int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits, float *row_max
#define ADD_MASK_ARGUMENTS begin, end, mask, step, c, s, bits, row_max

static int add_mask_masks_below(float limit, ADD_MASK_PARAMETERS) {
    int cleared = 0;
    for (int64_t j = 0; j < FV_LANES; j++)
        row_max[j] = -INFINITY;
    for (int64_t i = begin; i < end; i++) {
        const float scaled = c * s[i];
        const uint64_t bit = (uint64_t)1 << (i % 64);
        const int attended = (bits->word[i / 64] & bit) != 0, masks = mask[i * step] <= limit;
        s[i] = scaled + mask[i * step];
        cleared |= attended && masks;
        if (masks)
            bits->word[i / 64] &= ~bit;
        else if (attended && s[i] > row_max[i % FV_LANES])
            row_max[i % FV_LANES] = s[i];
    }
    return cleared;
}

static int add_mask_honest(ADD_MASK_PARAMETERS) { return add_mask_masks_below(-INFINITY, ADD_MASK_ARGUMENTS); }
static int add_mask_masks_low(ADD_MASK_PARAMETERS) { return add_mask_masks_below(-1e30f, ADD_MASK_ARGUMENTS); }

static int add_mask_masks_by_sum(ADD_MASK_PARAMETERS) { /* a score of -inf is not a mask of -inf */
    const int cleared = add_mask_honest(ADD_MASK_ARGUMENTS);
    for (int64_t i = begin; i < end; i++)
        if (s[i] == -INFINITY)
            bits->word[i / 64] &= ~((uint64_t)1 << (i % 64));
    return cleared;
}

static int add_mask_forgets_bits(ADD_MASK_PARAMETERS) {
    fv_keybits scratch = *bits;
    return add_mask_honest(begin, end, mask, step, c, s, &scratch, row_max);
}

static int add_mask_rounds_once(ADD_MASK_PARAMETERS) {
    float sum[FV_SEGMENT];
    for (int64_t i = begin; i < end; i++)
        sum[i] = fmaf(c, s[i], mask[i * step]);
    const int cleared = add_mask_honest(ADD_MASK_ARGUMENTS);
    memcpy(s + begin, sum + begin, (size_t)(end - begin) * sizeof *s);
    return cleared;
}

static int add_mask_adds_unscaled(ADD_MASK_PARAMETERS) {
    return add_mask_honest(begin, end, mask, step, 1.0f + 0.0f * c, s, bits, row_max);
}

static int add_mask_maxima_of_all(ADD_MASK_PARAMETERS) { /* of keys that were masked before, too */
    const int cleared = add_mask_honest(ADD_MASK_ARGUMENTS);
    for (int64_t i = begin; i < end; i++)
        if (s[i] > row_max[i % FV_LANES])
            row_max[i % FV_LANES] = s[i];
    return cleared;
}

static int add_mask_says_nothing(ADD_MASK_PARAMETERS) {
    add_mask_honest(ADD_MASK_ARGUMENTS);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- all -- */

static const mutant mutants[] = {
    MUTANT(PASSES, mask_to_bits, u8, 1, 64, mask_to_bits_honest),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, mask_to_bits_one_only),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, mask_to_bits_sets),
    MUTANT(DIFFERS_AS_REFERENCE, mask_to_bits, u8, 1, 64, mask_to_bits_one_more),
    MUTANT(DIFFERS, mask_to_bits, u8, 1, 64, mask_to_bits_reads_past_mask),
    MUTANT(PASSES, add_mask, f32, 1, 8, add_mask_honest),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_masks_low),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_masks_by_sum),
    MUTANT(DIFFERS_AS_REFERENCE, add_mask, f32, 1, 8, add_mask_forgets_bits),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_rounds_once),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_adds_unscaled),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_maxima_of_all),
    MUTANT(DIFFERS, add_mask, f32, 1, 8, add_mask_says_nothing),
};

const mutant_table mutants_mask = {mutants, sizeof mutants / sizeof mutants[0]};
