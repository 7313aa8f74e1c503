/* bfloat16 and, with F16C, float16 for AVX2: 8 lanes. The words are explained in half_scalar.h. There are no masked
 * moves of 16 bits: a part of a vector goes through memory. */
#ifndef FV_HALF_AVX2_H
#define FV_HALF_AVX2_H

#include "simd/simd_avx2.h"

static inline __m128i half_load(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void half_store(uint16_t *p, __m128i h) { _mm_storeu_si128((__m128i *)p, h); }

static inline __m128i half_load_n(const uint16_t *p, int64_t n) {
    uint16_t all[FV_W] = {0};
    memcpy(all, p, (size_t)n * sizeof *p);
    return half_load(all);
}

static inline void half_store_n(uint16_t *p, int64_t n, __m128i h) {
    uint16_t all[FV_W];
    half_store(all, h);
    memcpy(p, all, (size_t)n * sizeof *p);
}

static inline __m256i half_quiet(__m256i bits, vm nan) {
    return _mm256_or_si256(bits, _mm256_and_si256(_mm256_castps_si256(nan), _mm256_set1_epi32(0x400000)));
}

static inline vf half_from_bf16(__m128i h) {
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
    return _mm256_castsi256_ps(half_quiet(bits, v_nan(_mm256_castsi256_ps(bits))));
}

/* Rounded, in the upper halves. */
static inline __m256i half_rounded_bf16(vf a) {
    const __m256i bits = _mm256_castps_si256(a),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const vf kept = v_select(v_nan(a), _mm256_castsi256_ps(half_quiet(bits, v_nan(a))), _mm256_castsi256_ps(rounded));
    return _mm256_castps_si256(kept);
}

static inline __m128i half_to_bf16(vf a) {
    const __m256i high = _mm256_srli_epi32(half_rounded_bf16(a), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

static inline vf v_pair_first(const float *p) {
    return _mm256_and_ps(v_load(p), _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}
static inline vf v_pair_second(const float *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v_load(p)), 16));
}
static inline vf v_widen_bf16(const uint16_t *p) { return half_from_bf16(half_load(p)); }
static inline vf v_weight_bf16(vf a) {
    const __m256i bits = _mm256_min_epu32(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fc00000)),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
                  upper = _mm256_and_si256(rounded, _mm256_set1_epi32((int)0xffff0000u));
    return _mm256_castsi256_ps(upper);
}
static inline void v_store_pairs(float *words, const vf *x, int count) {
    const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (int i = 0; i < count; i++) {
        const __m256i bits = _mm256_castps_si256(x[i]), pairs = _mm256_or_si256(bits, _mm256_srli_epi64(bits, 48));
        _mm_storeu_si128((__m128i *)(words + i * FV_W / 2),
                         _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(pairs, evens)));
    }
}
static inline void v_narrow_bf16(uint16_t *p, vf a) { half_store(p, half_to_bf16(a)); }
static inline vf v_widen_bf16_n(const uint16_t *p, int64_t n) { return half_from_bf16(half_load_n(p, n)); }
static inline void v_narrow_bf16_n(uint16_t *p, int64_t n, vf a) { half_store_n(p, n, half_to_bf16(a)); }

static inline vf v_load_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half_load(p)), 16));
}

static inline void v_pair_bf16(vf words, vf *first, vf *second) {
    const __m256i w = _mm256_castps_si256(words);
    *first = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
    *second = _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)));
}

#ifdef __F16C__
static inline __m128i half_to_f16(vf a) { return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vf v_widen_f16(const uint16_t *p) { return _mm256_cvtph_ps(half_load(p)); }
static inline void v_narrow_f16(uint16_t *p, vf a) { half_store(p, half_to_f16(a)); }
static inline vf v_widen_f16_n(const uint16_t *p, int64_t n) { return _mm256_cvtph_ps(half_load_n(p, n)); }
static inline void v_narrow_f16_n(uint16_t *p, int64_t n, vf a) { half_store_n(p, n, half_to_f16(a)); }

static inline vf v_load_f16(const uint16_t *p) { return v_widen_f16(p); }

static inline void v_pair_f16(vf words, vf *first, vf *second) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_set_epi8(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0));
    const __m256i parted =
        _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_castps_si256(words), order), _MM_SHUFFLE(3, 1, 2, 0));
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(parted));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(parted, 1));
}
#endif

#endif
