/* Exponents of bfloat16 on avx512 (fv_exponent_range, kernels.h): of vectors of 32, and what they come to. */
#ifndef FV_EXPONENTS_AVX512_H
#define FV_EXPONENTS_AVX512_H

#include "simd/simd_avx512.h"

/* The smallest less 1, so that 0 is the largest, and the largest. */
typedef struct exponents {
    __m512i least, most;
} exponents;

static inline exponents exponents_none(void) { return (exponents){_mm512_set1_epi16(-1), _mm512_setzero_si512()}; }

static inline __attribute__((always_inline)) void exponents_add(exponents *m, __m512i halves) {
    const __m512i bits = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
    m->least = _mm512_min_epu16(m->least, _mm512_sub_epi16(bits, _mm512_set1_epi16(1)));
    m->most = _mm512_max_epu16(m->most, bits);
}

/* The smallest of 32. */
static inline int exponents_smallest(__m512i halves) {
    const __m256i half = _mm256_min_epu16(_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64(halves, 1));
    const __m128i quarter = _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return _mm_cvtsi128_si32(_mm_minpos_epu16(quarter)) & 0xffff;
}

static inline void exponents_take(const exponents *m, fv_exponent_range *to) {
    const int least = exponents_smallest(m->least),
              most = 0xffff - exponents_smallest(_mm512_xor_si512(m->most, _mm512_set1_epi16(-1)));
    if (least < 0xffff && least + 1 < to->least)
        to->least = least + 1;
    if (most > to->most)
        to->most = most;
}

#endif
