/* pack of rows as bf16x2 on avx512: the halves of words change places. Bound: a load and a store for 32 elements,
 * without norms. */
#include "simd/exponents_avx512.h"

enum { HALVES = 32 };

static inline __m512i load_pairs(const uint16_t *x, int64_t n) {
    return _mm512_rol_epi32(_mm512_maskz_loadu_epi16((__mmask32)(((uint64_t)1 << n) - 1), x), 16);
}

static inline __m512i multiply(__m512i pairs, __m512i exponent) {
    return _mm512_mask_add_epi16(pairs, _mm512_test_epi16_mask(pairs, _mm512_set1_epi16(0x7fff)), pairs, exponent);
}

/* Sums of squares of pairs. */
static inline vf squares_of(__m512i pairs, vf squares) {
    const vf first = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000))),
             second = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    return v_fma(second, second, v_fma(first, first, squares));
}

void fv_pack_rows_bf16x2_1x32_avx512(int64_t rows, int64_t n, const void *source, int64_t ldx, int exponent, float *y,
                                     int64_t ldy, fv_exponent_range *met, float *norm) {
    const uint16_t *x = source;
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= (n + 1) / 2);
    const __m512i more = _mm512_set1_epi16((short)(exponent * 128));
    exponents all = exponents_none();
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        vf squares = v_set1(0.0f);
        for (int64_t j = 0; j < n; j += HALVES) {
            const int64_t left = n - j < HALVES ? n - j : HALVES;
            const __m512i pairs = load_pairs(x + j, left), multiplied = multiply(pairs, more);
            exponents_add(&all, pairs);
            if (norm)
                squares = squares_of(multiplied, squares);
            _mm512_mask_storeu_epi32(y + j / 2, v_first((left + 1) / 2), multiplied);
        }
        const float sum = norm ? _mm512_reduce_add_ps(squares) : 0.0f;
        if (norm && sum > *norm)
            *norm = sum;
    }
    exponents_take(&all, met);
}
