/* narrow on avx512 with bfloat16's instructions: VCVTNE2PS2BF16 rounds as narrow does, but takes subnormal floats for
 * zeros. So vectors that have one are rounded by integers. Bound: two loads, and three operations a vector that look
 * for one. */
#include "simd/half_avx512.h"

enum { VECTORS = 4 };

/* The least magnitude less 1, of which 0 is the largest. */
static inline __m512i least_of(__m512i least, vf a) {
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
    return _mm512_min_epu32(least, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
}

static inline void narrow_row(int64_t n, const float *x, uint16_t *y) {
    int64_t j = 0;
    for (; j + VECTORS * FV_W <= n; j += VECTORS * FV_W) {
        vf a[VECTORS];
        __m512i least = _mm512_set1_epi32(-1);
        for (int g = 0; g < VECTORS; g++) {
            a[g] = v_load(x + j + g * FV_W);
            least = least_of(least, a[g]);
        }
        if (_mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(0x7fffff)))
            for (int g = 0; g < VECTORS; g++)
                v_narrow_bf16(y + j + g * FV_W, a[g]);
        else
            for (int g = 0; g < VECTORS; g += 2)
                _mm512_storeu_si512(y + j + g * FV_W, (__m512i)_mm512_cvtne2ps_pbh(a[g + 1], a[g]));
    }
    for (; j < n; j += FV_W) {
        const int64_t left = n - j < FV_W ? n - j : FV_W;
        v_narrow_bf16_n(y + j, left, v_load_n(x + j, left));
    }
}

void fv_narrow_bf16_1x32_avx512(int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    for (int64_t i = 0; i < rows; i++)
        narrow_row(n, x + i * ldx, y + i * ldy);
}
