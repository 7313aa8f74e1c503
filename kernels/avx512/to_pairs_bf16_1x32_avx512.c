/* to_pairs of bfloat16 on avx512: the halves of words change places. */
#include "simd/magnitudes_avx512.h"

void fv_to_pairs_bf16_1x32_avx512(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy,
                                  fv_magnitudes *met) {
    enum { HALVES = 32 };
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    magnitudes all = magnitudes_none();
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        for (int64_t j = 0; j < n; j += HALVES) {
            const int64_t left = n - j < HALVES ? n - j : HALVES;
            const __m512i halves = _mm512_maskz_loadu_epi16((__mmask32)(((uint64_t)1 << left) - 1), x + j);
            const __m512i pairs = _mm512_rol_epi32(halves, 16);
            magnitudes_add(&all, pairs);
            _mm512_mask_storeu_epi32(y + j / 2, v_first((left + 1) / 2), pairs);
        }
    magnitudes_take(&all, met);
}
