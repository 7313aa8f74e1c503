/* bfloat16 and float16 for AVX-512: 16 lanes. The words are explained in half_scalar.h. VCVTPH2PS and VCVTPS2PH do as
 * they say there, whatever the flush bits are; bfloat16 is rounded by integers, as VCVTNEPS2BF16 flushes subnormals. */
#ifndef FV_HALF_AVX512_H
#define FV_HALF_AVX512_H

#include "simd/simd_avx512.h"

static inline __m256i half_load_n(const uint16_t *p, int64_t n) { return _mm256_maskz_loadu_epi16(v_first(n), p); }

static inline vf half_from_bf16(__m256i h) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
    const vm nan = v_nan(_mm512_castsi512_ps(bits));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x400000)));
}

/* Rounded, in the upper halves. */
static inline __m512i half_rounded_bf16(vf a) {
    const __m512i bits = _mm512_castps_si512(a),
                  odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_mask_or_epi32(rounded, v_nan(a), bits, _mm512_set1_epi32(0x400000));
}

static inline __m256i half_to_bf16(vf a) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(half_rounded_bf16(a), 16)); }

static inline __m256i half_to_f16(vf a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vf v_pair_first(const float *p) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000)));
}
static inline vf v_pair_second(const float *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
static inline vf v_widen_bf16(const uint16_t *p) { return half_from_bf16(_mm256_loadu_si256((const __m256i *)p)); }
static inline vf v_widen_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline vf v_weight_bf16(vf a) {
    const __m512i bits = _mm512_min_epu32(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fc00000)),
                  less = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_mask_add_epi32(less, _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000)), less,
                                                  _mm512_set1_epi32(1)); /* ties to even */
    return _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32((int)0xffff0000u)));
}

/* One shuffle takes the upper halves, and changes their places. */
static inline void v_store_pairs(float *words, const vf *x, int count) {
    const __m512i order = _mm512_set_epi16(61, 63, 57, 59, 53, 55, 49, 51, 45, 47, 41, 43, 37, 39, 33, 35, 29, 31, 25,
                                           27, 21, 23, 17, 19, 13, 15, 9, 11, 5, 7, 1, 3);
    for (int i = 0; i < count; i += 2) {
        const __m512i a = _mm512_castps_si512(x[i]), b = i + 1 < count ? _mm512_castps_si512(x[i + 1]) : a,
                      pairs = _mm512_permutex2var_epi16(a, order, b);
        if (i + 1 < count)
            _mm512_storeu_si512(words + i * FV_W / 2, pairs);
        else
            _mm256_storeu_si256((__m256i *)(words + i * FV_W / 2), _mm512_castsi512_si256(pairs));
    }
}
static inline void v_narrow_bf16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, half_to_bf16(a)); }
static inline void v_narrow_f16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, half_to_f16(a)); }
static inline vf v_widen_bf16_n(const uint16_t *p, int64_t n) { return half_from_bf16(half_load_n(p, n)); }
static inline vf v_widen_f16_n(const uint16_t *p, int64_t n) { return _mm512_cvtph_ps(half_load_n(p, n)); }
static inline void v_narrow_bf16_n(uint16_t *p, int64_t n, vf a) {
    _mm256_mask_storeu_epi16(p, v_first(n), half_to_bf16(a));
}
static inline void v_narrow_f16_n(uint16_t *p, int64_t n, vf a) {
    _mm256_mask_storeu_epi16(p, v_first(n), half_to_f16(a));
}

static inline vf v_load_bf16(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline vf v_load_f16(const uint16_t *p) { return v_widen_f16(p); }

static inline void v_pair_bf16(vf words, vf *first, vf *second) {
    const __m512i w = _mm512_castps_si512(words);
    *first = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
    *second = _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000)));
}

/* One shuffle parts the halves, which are converted as they are. */
static inline void v_pair_f16(vf words, vf *first, vf *second) {
    const __m512i order = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                                           22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i parted = _mm512_permutexvar_epi16(order, _mm512_castps_si512(words));
    *first = _mm512_cvtph_ps(_mm512_castsi512_si256(parted));
    *second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(parted, 1));
}

#endif
