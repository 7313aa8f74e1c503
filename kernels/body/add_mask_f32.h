/* add_mask: scales the scores of a row, adds a mask or bias, takes keys where it is -inf out of the row's bits, and
 * finds the maxima of what is left (kernels.h has the contract).
 *
 * Whole words of 64 keys are told from the ends of a row: their bits need no shifts. Whether a mask is -inf anywhere is
 * known from the largest magnitude of a word, by units that do not multiply; only then each key is asked.
 *
 * No selection keeps the keys that it takes out from the maxima: their sum is -inf, or NaN, which maxima leave out. */
#include <float.h>

enum {
    ADD_MASK_GROUP = FV_LANES / FV_W,
    ADD_MASK_CHAINS = ADD_MASK_GROUP < 4 ? 4 : ADD_MASK_GROUP, /* of maxima */
    ADD_MASK_EVERY = (1 << FV_W) - 1
};

/* Takes what is gone out of a word of bits. Was there any? */
static inline uint64_t add_mask_clear(uint64_t *word, uint64_t gone) {
    const uint64_t cleared = *word & gone;
    *word &= ~gone;
    return cleared;
}

/* The 64 keys from key on, a word of bits. */
static inline __attribute__((always_inline)) uint64_t add_mask_word(int64_t key, const float *mask, const int step,
                                                                    vf c, float *s, fv_keybits *bits, vf *row_max) {
    const vf one = v_set1(*mask);
    vf most = v_set1(0.0f);
    uint64_t gone = 0;
    for (int g = 0; g < 64 / FV_W; g++) {
        const int64_t at = key + g * FV_W;
        const vf more = step ? v_load(mask + at) : one;
        const vf sum = v_add(v_mul(v_load(s + at), c), more);
        vf *to = &row_max[g % ADD_MASK_CHAINS];
        v_store(s + at, sum);
        most = v_max_abs(most, more);
        *to = v_max_where(v_bits_at(bits->word, at), sum, *to);
    }
    if (v_to_bits(v_le(most, v_set1(FLT_MAX))) == ADD_MASK_EVERY)
        return 0;
    for (int g = 0; g < 64 / FV_W; g++) {
        const vf more = step ? v_load(mask + key + g * FV_W) : one;
        gone |= (uint64_t)v_to_bits(v_eq(more, v_set1(-INFINITY))) << (g * FV_W);
    }
    return add_mask_clear(&bits->word[key / 64], gone);
}

/* Whole words up to end. */
static inline __attribute__((always_inline)) uint64_t add_mask_words(int64_t key, int64_t end, const float *mask,
                                                                     const int step, vf c, float *s, fv_keybits *bits,
                                                                     float *row_max) {
    vf most[ADD_MASK_CHAINS];
    uint64_t cleared = 0;
    for (int g = 0; g < ADD_MASK_CHAINS; g++)
        most[g] = v_load(row_max + g % ADD_MASK_GROUP * FV_W);
    for (; key < end; key += 64)
        cleared |= add_mask_word(key, mask, step, c, s, bits, most);
    for (int g = ADD_MASK_GROUP; g < ADD_MASK_CHAINS; g++)
        most[g % ADD_MASK_GROUP] = v_max(most[g], most[g % ADD_MASK_GROUP]);
    for (int g = 0; g < ADD_MASK_GROUP; g++)
        v_store(row_max + g * FV_W, most[g]);
    return cleared;
}

/* Keys [key, end) of one word: the ends of a row. */
static __attribute__((noinline)) uint64_t add_mask_part(int64_t key, int64_t end, const float *mask, int64_t step,
                                                        float c, float *s, fv_keybits *bits, float *row_max) {
    uint64_t *word = &bits->word[key / 64], gone = 0;
    for (int64_t at = key; at < end; at += FV_W) {
        const int64_t n = end - at < FV_W ? end - at : FV_W;
        const vf more = step ? n < FV_W ? v_load_n(mask + at, n) : v_load(mask + at) : v_set1(*mask);
        const vf old = n < FV_W ? v_load_n(s + at, n) : v_load(s + at);
        const vf sum = v_add(v_mul(old, v_set1(c)), more);
        const uint32_t lanes = (uint32_t)ADD_MASK_EVERY >> (FV_W - n);
        float *to = row_max + at % FV_LANES;
        if (n < FV_W)
            v_store_n(s + at, n, sum);
        else
            v_store(s + at, sum);
        gone |= (uint64_t)(v_to_bits(v_eq(more, v_set1(-INFINITY))) & lanes) << (at % 64);
        v_store(to, v_max_where(v_bits((uint32_t)(*word >> (at % 64)) & lanes), sum, v_load(to)));
    }
    return add_mask_clear(word, gone);
}

int FV_NAME(int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits,
            float *row_max) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0);
    assert(step == 0 || step == 1);
    assert(c >= 1.0f && c < 2.0f);
    const int64_t past = (begin + 63) / 64 * 64, first = past < end ? past : end; /* where whole words begin, */
    const int64_t last = end / 64 * 64 > first ? end / 64 * 64 : first;           /* and end */
    uint64_t cleared = 0;
    for (int g = 0; g < FV_LANES; g += FV_W)
        v_store(row_max + g, v_set1(-INFINITY));
    if (begin < first)
        cleared |= add_mask_part(begin, first, mask, step, c, s, bits, row_max);
    if (first < last && step)
        cleared |= add_mask_words(first, last, mask, 1, v_set1(c), s, bits, row_max);
    else if (first < last)
        cleared |= add_mask_words(first, last, mask, 0, v_set1(c), s, bits, row_max);
    if (last < end)
        cleared |= add_mask_part(last, end, mask, step, c, s, bits, row_max);
    return cleared != 0;
}
