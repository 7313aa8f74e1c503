/* bias: adds an additive mask to the scores of a row and takes keys where it is -inf out of its bits (kernels.h has the
 * contract). */
static inline vf bias_load(const float *p, int64_t n) { return n < FV_W ? v_load_n(p, n) : v_load(p); }

void FV_NAME(int64_t begin, int64_t end, const float *mask, int64_t step, float *s, fv_keybits *bits) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0);
    assert(step == 0 || step == 1);
    for (int64_t key = begin; key < end; key += FV_W) {
        const int64_t n = end - key;
        const vf bias = step ? bias_load(mask + key, n) : v_set1(*mask);
        const vf sum = v_add(bias_load(s + key, n), bias);
        if (n < FV_W)
            v_store_n(s + key, n, sum);
        else
            v_store(s + key, sum);
        const uint64_t named = n < FV_W ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
        bits->word[key / 64] &= ~((v_to_bits(v_eq(bias, v_set1(-INFINITY))) & named) << (key % 64));
    }
}
