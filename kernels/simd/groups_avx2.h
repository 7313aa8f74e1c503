/* Products of few rows with integers in groups (groups.h) for AVX2: 8 lanes. The words, of all tiers:
 *
 *   v_words     words of four bytes: v_words_at(p)
 *               v_words_and(a, mask), v_words_right(a, bits)  of 32 bits, left if bits are negative
 *               v_words_or(a, b, mask)  a or (b and mask)
 *               v_words_signed(a)  bytes with sign, as the tier multiplies them: V_BIAS added
 *               v_words_lookup(table, a)  bytes, at most 15, become those of table = v_words_table(p): *p to p[15]
 *   v_total     W integers of 32 bits: v_total_at(p)  all are *p
 *               v_total_scaled(p, by)  *p times by            v_total_of(a)  integers as floats
 *               v_total_times(a, b)  their products        v_total_float(a)  rounded
 *   v_dots      W sums of products with a row of X: v_dots_from(total)  begin with these, v_dots_total(a)  are now
 *               v_dots_add adds those of one part of words with x, of as many vectors: words of i8x2 or i16 (groups.h)
 *   V_ROWS(bits), V_OF_1, V_OF_ROWS(bits), V_TURNS
 *               rows at once, where there are more than one, and vectors of columns of one and of these: what registers
 *               hold; how often these go over each group, one after the other
 *
 * With AVX-VNNI, VPDPBUSD multiplies planes, as groups_avx512.h has it: a part is a plane. Else VPMADDWD multiplies all
 * bits of two channels at once: a part are two of the four bytes. Planes by VPMADDUBSW take as many operations for four
 * rows, and more time (docs/lab/quantized.md). */
#ifndef FV_GROUPS_AVX2_H
#define FV_GROUPS_AVX2_H

#include "simd/half_avx2.h"
#include "simd/int8_avx2.h"

#define GROUPS_INLINE static inline __attribute__((always_inline))

typedef __m256i v_words;
static inline v_words v_words_at(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline v_words v_words_once(const uint32_t *p) { /* gcc would load again what it has no register for */
    v_words words = v_words_at(p);
    __asm__ volatile("" : "+x"(words));
    return words;
}
static inline v_words v_words_and(v_words a, uint32_t mask) {
    return _mm256_and_si256(a, _mm256_set1_epi32((int)mask));
}
static inline v_words v_words_without(v_words a, uint32_t mask) {
    return _mm256_andnot_si256(_mm256_set1_epi32((int)mask), a);
}
static inline v_words v_words_or(v_words a, v_words b) { return _mm256_or_si256(a, b); }
static inline v_words v_words_right(v_words a, const int bits) {
    return bits > 0 ? _mm256_srli_epi32(a, bits) : bits < 0 ? _mm256_slli_epi32(a, -bits) : a;
}

static inline v_words v_words_table(const int8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline v_words v_words_lookup(v_words table, v_words a) { return _mm256_shuffle_epi8(table, a); }

typedef __m256i v_total;
static inline v_total v_total_at(const int32_t *a) { /* gcc would load integers once, for two instructions */
    return _mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)a));
}
static inline v_total v_total_scaled(const int32_t *a, int32_t by) {
    return _mm256_mullo_epi32(v_total_at(a), _mm256_set1_epi32(by));
}
static inline v_total v_total_of(vf a) { return _mm256_cvttps_epi32(a); }
static inline v_total v_total_times(v_total a, v_total b) { return _mm256_mullo_epi32(a, b); }
static inline vf v_total_float(v_total a) { return _mm256_cvtepi32_ps(a); }

static inline __m256i groups_broadcast(uint32_t word) { return _mm256_set1_epi32((int)word); }

#define V_ROWS(bits) 4
enum { V_BIAS = 128, V_TURNS = 2, V_PARTS = 2 };

static inline v_words v_words_signed(v_words a) { return _mm256_xor_si256(a, _mm256_set1_epi8(-128)); }

#ifdef __AVXVNNI__
#define V_OF_ROWS(bits) 1
enum { V_OF_1 = 2 };

typedef struct v_dots {
    __m256i high, low;
} v_dots;
static inline v_dots v_dots_from(v_total a) { return (v_dots){_mm256_setzero_si256(), a}; }
static inline v_total v_dots_total(v_dots a) { return _mm256_add_epi32(_mm256_slli_epi32(a.high, 7), a.low); }
GROUPS_INLINE void v_dots_add(v_dots sums[], const v_words w[], const uint32_t *x, const int word, const int part,
                              const int vectors) {
    const __m256i plane = groups_broadcast(x[word / 4 * 8 + word % 4 + 4 * part]);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        if (part == 0)
            sums[v].high = _mm256_dpbusd_avx_epi32(sums[v].high, w[v], plane);
        else
            sums[v].low = _mm256_dpbusd_avx_epi32(sums[v].low, w[v], plane);
    }
}
#else
#define V_OF_ROWS(bits) 2
enum { V_OF_1 = 4 };

typedef __m256i v_dots;
static inline v_dots v_dots_from(v_total a) { return a; }
static inline v_total v_dots_total(v_dots a) { return a; }
GROUPS_INLINE void v_dots_add(v_dots sums[], const v_words w[], const uint32_t *x, const int word, const int part,
                              const int vectors) {
    const __m256i pair = groups_broadcast(x[2 * word + part]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const __m256i of = part ? _mm256_srli_epi16(w[v], 8) : _mm256_and_si256(w[v], _mm256_set1_epi16(255));
        sums[v] = int8_add(sums[v], _mm256_madd_epi16(of, pair));
    }
}
#endif

#endif
