/* Products of integers in groups (groups.h) for AVX-512 with VNNI: VPDPBUSD multiplies four channels of a plane of X,
 * bytes with sign, by those of B without sign. The words are explained in groups_avx2.h. */
#ifndef FV_GROUPS_AVX512_H
#define FV_GROUPS_AVX512_H

#include "simd/simd_avx512.h"

enum { V_BIAS = 128, V_ROWS = 8 };

typedef __m512i v_words;
static inline v_words v_words_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
static inline v_words v_words_and(v_words a, uint32_t mask) {
    return _mm512_and_si512(a, _mm512_set1_epi32((int)mask));
}
static inline v_words v_words_or(v_words a, v_words b, uint32_t mask) { /* 0xf8: a or (b and mask) */
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi32((int)mask), 0xf8);
}
static inline v_words v_words_right(v_words a, const int bits) {
    return bits > 0 ? _mm512_srli_epi32(a, (unsigned)bits) : bits < 0 ? _mm512_slli_epi32(a, (unsigned)-bits) : a;
}
static inline v_words v_words_signed(v_words a) { return _mm512_xor_si512(a, _mm512_set1_epi8(-128)); }

typedef __m512i v_total;
static inline v_total v_total_all(const int32_t *p) { return _mm512_set1_epi32(*p); }
static inline v_total v_total_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void v_total_store(int32_t *p, v_total a) { _mm512_storeu_si512(p, a); }
static inline v_total v_total_less(v_total a, vf zero, v_total sum) {
    return _mm512_sub_epi32(a, _mm512_mullo_epi32(_mm512_cvtps_epi32(zero), sum));
}
static inline vf v_total_float(v_total a) { return _mm512_cvtepi32_ps(a); }

typedef struct v_dots {
    __m512i high, low;
} v_dots;
static inline v_dots v_dots_from(v_total a) { return (v_dots){_mm512_setzero_si512(), a}; }
static inline v_total v_dots_total(v_dots a) { return _mm512_add_epi32(_mm512_slli_epi32(a.high, 7), a.low); }

/* gcc would move sums about. Memory broadcasts x: no register, and no operation of its own. */
static inline __m512i groups_multiply(__m512i sums, v_words w, const int8_t x[4]) {
#ifdef __clang__
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(word));
#else
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(w), "m"(*(const int8_t(*)[4])x));
    return sums;
#endif
}
static inline v_dots v_dots_add(v_dots a, const v_words w[4], const fv_i8_word *x, const int bits) {
    (void)bits;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a.high = groups_multiply(a.high, w[i], x[i].high);
        a.low = groups_multiply(a.low, w[i], x[i].low);
    }
    return a;
}

#endif
