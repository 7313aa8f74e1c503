/* pair_rows on avx512: two rows of 16 elements a vector. Bound: two loads and a store for 64 bytes. */
#include "simd/simd_avx512.h"

static inline __m512i words(const uint16_t *x, __mmask16 there) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, x));
}

void fv_pair_rows_bf16_2x16_avx512(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy,
                                   fv_magnitudes *magnitudes) {
    assert(rows >= 0 && n >= 0 && ldx >= 0 && (rows <= 2 || ldy >= n));
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1), most = _mm512_setzero_si512(); /* least: less 1, so that 0 is the largest */
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t j = 0; j < n; j += 16) {
            const __mmask16 there = v_first(n - j < 16 ? n - j : 16), second = i + 1 < rows ? there : 0;
            const __m512i a = words(x + i * ldx + j, there), b = words(second ? x + (i + 1) * ldx + j : x, second);
            const __m512i pairs = _mm512_or_si512(_mm512_slli_epi32(a, 16), b),
                          bits = _mm512_and_si512(pairs, magnitude);
            least = _mm512_min_epu16(least, _mm512_sub_epi16(bits, one));
            most = _mm512_max_epu16(most, bits);
            _mm512_mask_storeu_epi32(y + i / 2 * ldy + j, there, pairs);
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
}
