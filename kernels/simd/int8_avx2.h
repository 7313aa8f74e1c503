/* int8 for AVX2: 8 lanes. The words are explained in int8_scalar.h. Products by VPMADDWD, two channels at once. */
#ifndef FV_INT8_AVX2_H
#define FV_INT8_AVX2_H

#include "simd/simd_avx2.h"

static inline vf v_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline vf v_load_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline vf v_load_e8m0(const uint8_t *p) {
    const __m256i one = _mm256_set1_epi32(1), e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                  least = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e),
                  none = _mm256_and_si256(_mm256_cmpeq_epi32(e, _mm256_set1_epi32(255)), _mm256_set1_epi32(0x00c00000)),
                  number = _mm256_or_si256(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23), none);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(least, number, _mm256_cmpgt_epi32(e, one)));
}

static inline __m256i int8_broadcast(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}

/* Bytes with 128 added, which take two operations less; what that adds to sums is subtracted once. */
typedef struct vi8 {
    __m256i even, odd;
} vi8;
typedef __m256i v_sums;

static inline vi8 v_i8(vf words) {
    const __m256i w = _mm256_xor_si256(_mm256_castps_si256(words), _mm256_set1_epi8(-128));
    return (vi8){_mm256_and_si256(w, _mm256_set1_epi16(255)), _mm256_srli_epi16(w, 8)};
}
static inline v_sums v_no_sums(void) { return _mm256_setzero_si256(); }
/* gcc would move sums about. */
static inline __m256i int8_add(__m256i sums, __m256i products) {
#ifdef __clang__
    return _mm256_add_epi32(sums, products);
#else
    __asm__("vpaddd %1, %0, %0" : "+x"(sums) : "x"(products));
    return sums;
#endif
}
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) {
    sums = int8_add(sums, _mm256_madd_epi16(k.even, int8_broadcast(q->even)));
    return int8_add(sums, _mm256_madd_epi16(k.odd, int8_broadcast(q->odd)));
}
static inline vf v_sums_float(v_sums sums, int32_t total) {
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, _mm256_slli_epi32(_mm256_set1_epi32(total), 7)));
}

static inline int32_t v_top(vf a) {
    const __m256i x = _mm256_castps_si256(a);
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1)));
}

typedef __m256i v_whole;
static inline v_whole v_nearest(vf a) {
    return _mm256_cvtps_epi32(_mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline v_whole v_whole_zero(void) { return _mm256_setzero_si256(); }
static inline v_whole v_whole_add(v_whole a, v_whole b) { return _mm256_add_epi32(a, b); }
static inline int32_t v_whole_sum(v_whole a) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

static inline v_whole v_whole_high(v_whole a) {
    return _mm256_srai_epi32(_mm256_add_epi32(a, _mm256_set1_epi32(64)), 7);
}
static inline v_whole v_whole_low(v_whole a, v_whole high) { return _mm256_sub_epi32(a, _mm256_slli_epi32(high, 7)); }
static inline __m128i int8_halves(v_whole a) {
    return _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}
static inline void v_store_i8(void *to, v_whole a) { /* no integer of bytes saturates */
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(int8_halves(a), _mm_setzero_si128()));
}
static inline void v_store_i16(void *to, v_whole a) {
    _mm_storeu_si128((__m128i *)to, int8_halves(_mm256_shuffle_epi32(a, 0xd8)));
}

#endif
