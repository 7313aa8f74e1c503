/* to_pairs on avx512: the high halves of two vectors of floats, by one shuffle. */
#include "simd/simd_avx512.h"

void fv_to_pairs_f32_1x16_avx512(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy,
                                 fv_magnitudes *magnitudes) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    uint16_t halves[32];
    for (int i = 0; i < 16; i++) { /* word i: the high halves of floats 2 i + 1 and 2 i */
        halves[2 * i] = (uint16_t)(4 * i + 3);
        halves[2 * i + 1] = (uint16_t)(4 * i + 1);
    }
    const __m512i choose = _mm512_loadu_si512(halves), magnitude = _mm512_set1_epi16(0x7fff),
                  one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1), most = _mm512_setzero_si512(), lost = most;
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        for (int64_t j = 0; j < n; j += 32) {
            const int64_t left = n - j, low = left < 16 ? left : 16, high = left < 16 ? 0 : left < 32 ? left - 16 : 16;
            const __m512i a = _mm512_castps_si512(v_load_n(x + j, low)),
                          b = _mm512_maskz_loadu_epi32(v_first(high), high ? x + j + 16 : x);
            const __m512i pairs = _mm512_permutex2var_epi16(a, choose, b), bits = _mm512_and_si512(pairs, magnitude);
            lost = _mm512_or_si512(lost, _mm512_slli_epi32(_mm512_or_si512(a, b), 16));
            least = _mm512_min_epu16(least, _mm512_sub_epi16(bits, one));
            most = _mm512_max_epu16(most, bits);
            _mm512_mask_storeu_epi32(y + j / 2, v_first((low + high + 1) / 2), pairs);
        }
    uint16_t smallest[32], largest[32];
    _mm512_storeu_si512(smallest, least);
    _mm512_storeu_si512(largest, most);
    for (int i = 0; i < 32; i++) {
        if (smallest[i] < 0xffff && smallest[i] + 1 < magnitudes->least)
            magnitudes->least = smallest[i] + 1;
        if (largest[i] > magnitudes->most)
            magnitudes->most = largest[i];
    }
    if (_mm512_test_epi32_mask(lost, lost) && magnitudes->most < 0x7f80)
        magnitudes->most = 0x7f80;
}
