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
 *               v_dots_add adds those of w, which have `bits` bits, of 8 they are v_words_signed, with x: words of i8x2
 *               (groups.h), or, of 8 bits without VPDPBUSD, of i16. Here w are eight steps, the first or second of 16,
 *               of a vector; planes have what joins a later one
 *   V_ROWS(bits), V_OF_1, V_OF_ROWS(bits)
 *               rows at once, where there are more than one, and vectors of columns of one and of these: what registers
 *               hold
 *
 * With AVX-VNNI, VPDPBUSD multiplies planes, as groups_avx512.h has it. Else VPMADDUBSW does: of words of few bits its
 * sums of two products, and of as many of them as are added, stay below 2^15. Words of 8 bits would saturate:
 * VPMADDWD multiplies them, two channels at once. */
#ifndef FV_GROUPS_AVX2_H
#define FV_GROUPS_AVX2_H

#include "simd/half_avx2.h"
#include "simd/int8_avx2.h"

#define GROUPS_INLINE static inline __attribute__((always_inline))

typedef __m256i v_words;
static inline v_words v_words_at(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
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
#define V_OF_ROWS(bits) 1

typedef struct v_planes { /* sums of 16 bits */
    __m256i high, low;
} v_planes;

#ifdef __AVXVNNI__
enum { V_BIAS = 128, V_OF_1 = 2 };

static inline v_words v_words_signed(v_words a) { return _mm256_xor_si256(a, _mm256_set1_epi8(-128)); }

typedef struct v_dots {
    __m256i high, low;
} v_dots;
static inline v_dots v_dots_from(v_total a) { return (v_dots){_mm256_setzero_si256(), a}; }
static inline v_total v_dots_total(v_dots a) { return _mm256_add_epi32(_mm256_slli_epi32(a.high, 7), a.low); }
GROUPS_INLINE void v_dots_add(v_dots *sums, v_planes *planes, const v_words w[2], const uint32_t *x, const int eight,
                              const int bits) {
    (void)planes, (void)bits;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        sums->high = _mm256_dpbusd_avx_epi32(sums->high, w[i], groups_broadcast(x[2 * eight + i]));
        sums->low = _mm256_dpbusd_avx_epi32(sums->low, w[i], groups_broadcast(x[4 + 2 * eight + i]));
    }
}
#else
enum { V_BIAS = 0, V_OF_1 = 4 };

static inline v_words v_words_signed(v_words a) { return a; }

typedef __m256i v_dots;
static inline v_dots v_dots_from(v_total a) { return a; }
static inline v_total v_dots_total(v_dots a) { return a; }

static inline __m256i groups_pairs(v_words w, uint32_t x) { return _mm256_maddubs_epi16(w, groups_broadcast(x)); }
/* 2 * 127 * 31 * 4, 2 * 127 * 63 * 2 and, of low planes, 2 * 64 * 63 * 4 are the largest sums of 16 bits. */
GROUPS_INLINE void v_dots_add(v_dots *sums, v_planes *planes, const v_words w[2], const uint32_t *x, const int eight,
                              const int bits) {
    if (bits == 8) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w[i], 8), 8), odd = _mm256_srai_epi16(w[i], 8);
            const uint32_t *at = x + 4 * eight + 2 * i;
            *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(even, groups_broadcast(at[0])));
            *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(odd, groups_broadcast(at[1])));
        }
        return;
    }
    __m256i high = groups_pairs(w[0], x[2 * eight]), low = groups_pairs(w[0], x[4 + 2 * eight]);
    if (eight && bits < 6)
        high = _mm256_add_epi16(planes->high, high);
    if (eight)
        low = _mm256_add_epi16(planes->low, low);
    high = _mm256_add_epi16(high, groups_pairs(w[1], x[2 * eight + 1]));
    low = _mm256_add_epi16(low, groups_pairs(w[1], x[4 + 2 * eight + 1]));
    __asm__ volatile("" : "+x"(high), "+x"(low)); /* gcc would add products later, and spill them */
    *planes = (v_planes){high, low};
    if (eight)
        *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    if (eight || bits == 6)
        *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(high, _mm256_set1_epi16(128)));
}
#endif

#endif
