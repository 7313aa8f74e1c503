/* add_mask: scales the scores of a row, adds an additive mask and takes keys where it is -inf out of the row's bits
 * (kernels.h has the contract). */
static inline vf add_mask_load(const float *p, int64_t n) { return n < FV_W ? v_load_n(p, n) : v_load(p); }

void FV_NAME(int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s, fv_keybits *bits) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0);
    assert(step == 0 || step == 1);
    assert(c >= 1.0f && c < 2.0f);
    for (int64_t key = begin; key < end; key += FV_W) {
        const int64_t n = end - key;
        const vf more = step ? add_mask_load(mask + key, n) : v_set1(*mask);
        const vf sum = v_add(v_mul(add_mask_load(s + key, n), v_set1(c)), more);
        if (n < FV_W)
            v_store_n(s + key, n, sum);
        else
            v_store(s + key, sum);
        const uint64_t named = n < FV_W ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
        bits->word[key / 64] &= ~((v_to_bits(v_eq(more, v_set1(-INFINITY))) & named) << (key % 64));
    }
}
