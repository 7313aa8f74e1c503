/* weights: the attention weights of one row over one segment, from its scores and its lse (kernels.h has the formula).
 */
#include "v_exp.h"

void FV_NAME(int64_t begin, int64_t end, const float *s, float c, float lse, const fv_keybits *bits, float *w) {
    assert(0 <= begin && begin <= end && end <= FV_SEGMENT && begin % FV_LANES == 0);
    assert(bits);
    assert(c >= 1.0f && c < 2.0f);
    const vf base = v_set1(lse == -INFINITY ? INFINITY : lse); /* exp(s - inf) = 0; no attended s is +inf then */
    for (int64_t key = begin; key < end; key += FV_W) {
        const vm attended = v_bits((uint32_t)(bits->word[key / 64] >> (key % 64)) & (uint32_t)((1ull << FV_W) - 1));
        const int64_t n = end - key;
        const vf acc = n < FV_W ? v_load_n(s + key, n) : v_load(s + key);
        vf p = v_exp(v_sub(v_mul(acc, v_set1(c)), base));
        p = v_select(v_nan(p), v_set1(NAN), p);
        p = v_select(attended, p, v_set1(0.0f));
        if (n < FV_W)
            v_store_n(w + key, n, p);
        else
            v_store(w + key, p);
    }
}
