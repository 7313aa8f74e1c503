/* int8 for AVX2: 8 lanes. The words are explained in int8_scalar.h. Products by VPMADDWD, two channels at once. */
#ifndef FV_INT8_AVX2_H
#define FV_INT8_AVX2_H

#include "simd/simd_avx2.h"

static inline vf v_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline __m256i int8_broadcast(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}

typedef struct vi8 {
    __m256i even, odd;
} vi8;
typedef __m256i v_sums;

static inline vi8 v_i8(vf words) {
    const __m256i w = _mm256_castps_si256(words);
    return (vi8){_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)};
}
static inline v_sums v_no_sums(void) { return _mm256_setzero_si256(); }
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(k.even, int8_broadcast(q->even)));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(k.odd, int8_broadcast(q->odd)));
}
static inline vf v_sums_float(v_sums sums, int32_t total) {
    (void)total;
    return _mm256_cvtepi32_ps(sums);
}

#endif
