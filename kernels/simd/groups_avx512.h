/* Products of integers in groups (groups.h) for AVX-512 with VNNI: VPDPBUSD multiplies four channels of a plane of X,
 * bytes with sign, by those of B without sign. The words are explained in groups_avx2.h. */
#ifndef FV_GROUPS_AVX512_H
#define FV_GROUPS_AVX512_H

#include "simd/half_avx512.h"
#include "simd/int8_avx512.h"

enum { V_BIAS = 128, V_OF_1 = 4, V_TURNS = 1 };

/* Words of fewer bits take operations, which four rows share. */
#define V_ROWS(bits) ((bits) == 8 ? 2 : 4)
#define V_OF_ROWS(bits) (8 / V_ROWS(bits))

typedef __m512i v_words;
static inline v_words v_words_at(const uint32_t *p) {
    v_words words = _mm512_loadu_si512(p);
    __asm__ volatile("" : "+v"(words));
    return words;
}
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
static inline v_words v_words_table(const int8_t *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline v_words v_words_lookup(v_words table, v_words a) { return _mm512_shuffle_epi8(table, a); }

typedef __m512i v_total;
static inline v_total v_total_at(const int32_t *a) { return _mm512_set1_epi32(*a); }
static inline v_total v_total_scaled(const int32_t *a, int32_t by) { return _mm512_set1_epi32(*a * by); }
static inline v_total v_total_of(vf a) { return _mm512_cvttps_epi32(a); }
static inline v_total v_total_times(v_total a, v_total b) { return _mm512_mullo_epi32(a, b); }
static inline vf v_total_float(v_total a) { return _mm512_cvtepi32_ps(a); }

typedef struct v_dots {
    __m512i high, low;
} v_dots;
static inline v_dots v_dots_from(v_total a) { return (v_dots){_mm512_setzero_si512(), a}; }
static inline v_total v_dots_total(v_dots a) { return _mm512_add_epi32(_mm512_slli_epi32(a.high, 7), a.low); }

/* gcc would move sums about. */
static inline __m512i groups_multiply(__m512i sums, v_words w, __m512i x) {
#ifdef __clang__
    return _mm512_dpbusd_epi32(sums, w, x);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(w), "v"(x));
    return sums;
#endif
}
static inline void v_dots_add(v_dots *sums, const v_words w[], const uint32_t *x, const int vectors) {
    const __m512i high = _mm512_set1_epi32((int)x[0]), low = _mm512_set1_epi32((int)x[4]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        sums[v].high = groups_multiply(sums[v].high, w[v], high);
        sums[v].low = groups_multiply(sums[v].low, w[v], low);
    }
}

#endif
