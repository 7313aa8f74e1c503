/* weight_sums: adds up the attention weights of each key over rows, from their scores and lse (kernels.h has the
 * contract). Columns of a few vectors are walked from the first row to the last, and their sums stay in registers.
 *
 * Bound: v_exp.h's operations and four more a vector (fovea-bench --filter kernel/weight_sums). Figures:
 * docs/lab/softmax.md.
 */
#include "v_exp.h"

static inline __attribute__((always_inline)) void weight_sums_columns(int64_t rows, const float *s, int64_t lds,
                                                                      float c, const float *lse, const fv_keybits *bits,
                                                                      int64_t bits_step, int64_t key, float *sums,
                                                                      const int count) {
    vf sum[4], w[4];
    for (int g = 0; g < count; g++)
        sum[g] = v_load(sums + key + g * FV_W);
    for (int64_t i = 0; i < rows; i++, s += lds) {
        const vf base = v_set1(lse[i] == -INFINITY ? INFINITY : lse[i]); /* exp(s - inf) = 0 */
        for (int g = 0; g < count; g++)
            w[g] = v_sub(v_mul(v_load(s + key + g * FV_W), v_set1(c)), base);
        v_exp_each(w, count, 0);
        for (int g = 0; g < count && bits; g++) {
            const int64_t at = key + g * FV_W;
            const uint64_t word = bits[i * bits_step].word[at / 64] >> (at % 64);
            w[g] = v_select(v_bits((uint32_t)word & (uint32_t)((1ull << FV_W) - 1)), w[g], v_set1(0.0f));
        }
        for (int g = 0; g < count; g++)
            sum[g] = v_add(sum[g], w[g]);
    }
    for (int g = 0; g < count; g++)
        v_store(sums + key + g * FV_W, sum[g]);
}

void FV_NAME(int64_t rows, int64_t begin, int64_t end, const float *s, int64_t lds, float c, const float *lse,
             const fv_keybits *bits, int64_t bits_step, float *sums) {
    enum { GROUP = FV_LANES / FV_W, SIDE = 4, TOGETHER = SIDE * FV_W };
    assert(rows >= 0 && 0 <= begin && begin <= end && end <= FV_SEGMENT);
    assert(begin % FV_LANES == 0 && end % FV_LANES == 0 && c >= 1.0f && c < 2.0f);
    int64_t key = begin;
    for (; key + TOGETHER <= end; key += TOGETHER)
        weight_sums_columns(rows, s, lds, c, lse, bits, bits_step, key, sums, SIDE);
    for (; (int)TOGETHER > FV_LANES && key < end; key += FV_LANES)
        weight_sums_columns(rows, s, lds, c, lse, bits, bits_step, key, sums, GROUP < SIDE ? GROUP : SIDE);
}
