/* to_pairs on avx512: the high halves of two vectors of floats, by one shuffle. */
#include "simd/magnitudes_avx512.h"

void fv_to_pairs_f32_1x16_avx512(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy,
                                 fv_magnitudes *met) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    /* Word i: the high halves of floats 2 i + 1 and 2 i. */
    const __m512i choose = _mm512_set_epi16(61, 63, 57, 59, 53, 55, 49, 51, 45, 47, 41, 43, 37, 39, 33, 35, 29, 31, 25,
                                            27, 21, 23, 17, 19, 13, 15, 9, 11, 5, 7, 1, 3);
    magnitudes all = magnitudes_none();
    __m512i lost = _mm512_setzero_si512();
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        for (int64_t j = 0; j < n; j += 32) {
            const int64_t left = n - j, low = left < 16 ? left : 16, high = left < 16 ? 0 : left < 32 ? left - 16 : 16;
            const __m512i a = _mm512_castps_si512(v_load_n(x + j, low)),
                          b = _mm512_maskz_loadu_epi32(v_first(high), high ? x + j + 16 : x);
            const __m512i pairs = _mm512_permutex2var_epi16(a, choose, b);
            lost = _mm512_or_si512(lost, _mm512_slli_epi32(_mm512_or_si512(a, b), 16));
            magnitudes_add(&all, pairs);
            _mm512_mask_storeu_epi32(y + j / 2, v_first((low + high + 1) / 2), pairs);
        }
    magnitudes_take(&all, met);
    if (_mm512_test_epi32_mask(lost, lost) && met->most < 0x7f80)
        met->most = 0x7f80;
}
