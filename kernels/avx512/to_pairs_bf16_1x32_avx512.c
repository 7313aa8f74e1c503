/* to_pairs of bfloat16 on avx512: the halves of words change places. */
#include "simd/simd_avx512.h"

void fv_to_pairs_bf16_1x32_avx512(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy,
                                  fv_magnitudes *magnitudes) {
    enum { HALVES = 32 };
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1), most = _mm512_setzero_si512();
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        for (int64_t j = 0; j < n; j += HALVES) {
            const int64_t left = n - j < HALVES ? n - j : HALVES;
            const __m512i halves = _mm512_maskz_loadu_epi16((__mmask32)(((uint64_t)1 << left) - 1), x + j);
            const __m512i pairs = _mm512_rol_epi32(halves, 16), bits = _mm512_and_si512(pairs, magnitude);
            least = _mm512_min_epu16(least, _mm512_sub_epi16(bits, one)); /* so that 0 is the largest */
            most = _mm512_max_epu16(most, bits);
            _mm512_mask_storeu_epi32(y + j / 2, v_first((left + 1) / 2), pairs);
        }
    uint16_t smallest[HALVES], largest[HALVES];
    _mm512_storeu_si512(smallest, least);
    _mm512_storeu_si512(largest, most);
    for (int i = 0; i < HALVES; i++) {
        if (smallest[i] < 0xffff && smallest[i] + 1 < magnitudes->least)
            magnitudes->least = smallest[i] + 1;
        if (largest[i] > magnitudes->most)
            magnitudes->most = largest[i];
    }
}
