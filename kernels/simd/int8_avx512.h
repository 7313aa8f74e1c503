/* int8 for AVX-512: 16 lanes. The words are explained in int8_scalar.h.
 *
 * With FV_I8_PLANES, products by VPDPBUSD (AVX512-VNNI), four channels at once: it multiplies bytes without sign by
 * signed ones, so keys have 128 added, and the planes of Q each a sum. Else by VPMADDWD, two channels at once. */
#ifndef FV_INT8_AVX512_H
#define FV_INT8_AVX512_H

#include "simd/simd_avx512.h"

static inline vf v_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf v_load_u8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf v_load_e8m0(const uint8_t *p) {
    const __m512i one = _mm512_set1_epi32(1), e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)),
                  least = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e),
                  number = _mm512_mask_slli_epi32(least, _mm512_cmpgt_epi32_mask(e, one), _mm512_sub_epi32(e, one), 23);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(number, _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255)),
                                                     _mm512_set1_epi32(0x7fc00000)));
}

static inline __m512i int8_broadcast(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}

#ifdef FV_I8_PLANES
typedef __m512i vi8;
typedef struct v_sums {
    __m512i high, low;
} v_sums;

static inline vi8 v_i8(vf words) { return _mm512_xor_si512(_mm512_castps_si512(words), _mm512_set1_epi8(-128)); }
static inline v_sums v_no_sums(void) { return (v_sums){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
/* gcc would move sums about. */
static inline __m512i int8_multiply(__m512i sums, __m512i k, __m512i q) {
#ifdef __clang__
    return _mm512_dpbusd_epi32(sums, k, q);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(k), "v"(q));
    return sums;
#endif
}
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) {
    sums.high = int8_multiply(sums.high, k, int8_broadcast(q->high));
    sums.low = int8_multiply(sums.low, k, int8_broadcast(q->low));
    return sums;
}
static inline vf v_sums_float(v_sums sums, int32_t total) {
    const __m512i high = _mm512_sub_epi32(sums.high, _mm512_set1_epi32(total));
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 7), sums.low));
}
#else
typedef struct vi8 {
    __m512i even, odd;
} vi8;
typedef __m512i v_sums;

static inline vi8 v_i8(vf words) {
    const __m512i w = _mm512_castps_si512(words);
    return (vi8){_mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), _mm512_srai_epi16(w, 8)};
}
static inline v_sums v_no_sums(void) { return _mm512_setzero_si512(); }
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) {
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(k.even, int8_broadcast(q->even)));
    return _mm512_add_epi32(sums, _mm512_madd_epi16(k.odd, int8_broadcast(q->odd)));
}
static inline vf v_sums_float(v_sums sums, int32_t total) {
    (void)total;
    return _mm512_cvtepi32_ps(sums);
}
#endif

static inline int32_t v_top(vf a) { return _mm512_reduce_max_epi32(_mm512_castps_si512(a)); }

typedef __m512i v_whole;
static inline v_whole v_nearest(vf a) {
    return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline v_whole v_whole_zero(void) { return _mm512_setzero_si512(); }
static inline v_whole v_whole_add(v_whole a, v_whole b) { return _mm512_add_epi32(a, b); }
static inline int32_t v_whole_sum(v_whole a) { return _mm512_reduce_add_epi32(a); }

static inline v_whole v_whole_high(v_whole a) {
    return _mm512_srai_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(64)), 7);
}
static inline v_whole v_whole_low(v_whole a, v_whole high) { return _mm512_sub_epi32(a, _mm512_slli_epi32(high, 7)); }
static inline void v_store_i8(void *to, v_whole a) { _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(a)); }
static inline void v_store_i16(void *to, v_whole a) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(_mm512_shuffle_epi32(a, _MM_PERM_DBCA)));
}

#endif
