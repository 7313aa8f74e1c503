/* pack of steps as bf16x2 on avx512: 32 elements of two rows are interleaved by two shuffles. Bound: two loads and two
 * stores for 128 bytes. */
#include "simd/exponents_avx512.h"

enum { HALVES = 32 };

static inline __mmask32 there(int64_t n) { return (__mmask32)(((uint64_t)1 << n) - 1); }

void fv_pack_steps_bf16x2_2x16_avx512(int64_t rows, int64_t n, const void *source, int64_t ldx, int exponent, float *y,
                                      int64_t ldy, fv_exponent_range *met, float *norm) {
    const uint16_t *x = source;
    (void)exponent, (void)norm;
    assert(rows >= 0 && n >= 0 && ldx >= 0 && (rows <= 2 || ldy >= n));
    /* Word i: element i of the second row, and of the first in the high half. */
    const __m512i low = _mm512_set_epi16(15, 47, 14, 46, 13, 45, 12, 44, 11, 43, 10, 42, 9, 41, 8, 40, 7, 39, 6, 38, 5,
                                         37, 4, 36, 3, 35, 2, 34, 1, 33, 0, 32);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    exponents all = exponents_none();
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t j = 0; j < n; j += HALVES) {
            const int64_t left = n - j < HALVES ? n - j : HALVES;
            const __mmask32 second = i + 1 < rows ? there(left) : 0;
            const __m512i a = _mm512_maskz_loadu_epi16(there(left), x + i * ldx + j),
                          b = _mm512_maskz_loadu_epi16(second, second ? x + (i + 1) * ldx + j : x);
            float *to = y + i / 2 * ldy + j;
            exponents_add(&all, a);
            exponents_add(&all, b);
            _mm512_mask_storeu_epi32(to, v_first(left < 16 ? left : 16), _mm512_permutex2var_epi16(a, low, b));
            if (left > 16)
                _mm512_mask_storeu_epi32(to + 16, v_first(left - 16), _mm512_permutex2var_epi16(a, high, b));
        }
    exponents_take(&all, met);
}
