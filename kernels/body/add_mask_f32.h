/* add_mask: scales the scores of a row, adds a mask or bias, takes keys where it is -inf out of the row's bits, and finds
 * the maxima of what is left (kernels.h has the contract).
 *
 * No selection keeps the keys that it takes out from the maxima: their sum is -inf, or NaN, which maxima leave out. */
enum { ADD_MASK_GROUP = FV_LANES / FV_W };

static inline uint64_t add_mask_lowest(int64_t n) { return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1; }

static inline vf add_mask_load(const float *p, int64_t n) { return n < FV_W ? v_load_n(p, n) : v_load(p); }

/* Keys [key, end) of one word of bits, of which these are attended; all: each of them, and they are whole groups.
 * Returns the bits of those where the mask is -inf. */
static inline __attribute__((always_inline)) uint64_t add_mask_word(int64_t key, int64_t end, const float *mask,
                                                                    int64_t step, vf c, float *s, uint64_t attended,
                                                                    const int all, vf *row_max) {
    const vf least = v_set1(-INFINITY), one = v_set1(mask[key * step]);
    uint64_t gone = 0;
    for (; key < end; key += FV_LANES) {
        for (int g = 0; g < ADD_MASK_GROUP; g++) {
            const int64_t at = key + g * FV_W, n = all ? FV_W : end - at;
            if (n <= 0)
                break;
            const vf more = step ? add_mask_load(mask + at, n) : one;
            vf sum = v_add(v_mul(add_mask_load(s + at, n), c), more);
            if (n < FV_W)
                v_store_n(s + at, n, sum);
            else
                v_store(s + at, sum);
            gone |= (v_to_bits(v_eq(more, least)) & add_mask_lowest(n)) << (at % 64);
            if (!all)
                sum = v_select(v_bits((uint32_t)(attended >> (at % 64) & add_mask_lowest(n < FV_W ? n : FV_W))), sum,
                               least);
            row_max[g] = v_max(sum, row_max[g]);
        }
    }
    return gone;
}

int FV_NAME(int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits,
            float *row_max) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0);
    assert(step == 0 || step == 1);
    assert(c >= 1.0f && c < 2.0f);
    vf most[ADD_MASK_GROUP];
    uint64_t cleared = 0;
    for (int g = 0; g < ADD_MASK_GROUP; g++)
        most[g] = v_set1(-INFINITY);
    for (int64_t key = begin, stop; key < end; key = stop) {
        const int64_t whole = key / 64 * 64 + 64;
        stop = whole < end ? whole : end;
        uint64_t *word = &bits->word[key / 64];
        const uint64_t attended = *word, named = add_mask_lowest(stop - key) << (key % 64);
        uint64_t gone;
        if ((attended & named) == named && (stop - key) % FV_LANES == 0)
            gone = add_mask_word(key, stop, mask, step, v_set1(c), s, attended, 1, most);
        else
            gone = add_mask_word(key, stop, mask, step, v_set1(c), s, attended, 0, most);
        *word = attended & ~gone;
        cleared |= attended & gone;
    }
    for (int g = 0; g < ADD_MASK_GROUP; g++)
        v_store(row_max + g * FV_W, most[g]);
    return cleared != 0;
}
