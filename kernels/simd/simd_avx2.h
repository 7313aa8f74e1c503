/* The vocabulary for AVX2 with FMA3: 8 lanes, masks in vector registers. The words are explained in simd_scalar.h. */
#ifndef FV_SIMD_AVX2_H
#define FV_SIMD_AVX2_H

#include <assert.h>
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define FV_W 8

typedef __m256 vf;
typedef __m256 vm;
typedef __m256i vi;

static inline __m256i v_first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf v_set1(float x) { return _mm256_set1_ps(x); }
static inline vf v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline vf v_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, v_first(n)); }
static inline void v_store_n(float *p, int64_t n, vf a) { _mm256_maskstore_ps(p, v_first(n), a); }

static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }

/* gcc would choose the form of the instruction that overwrites a or b, and then move or spill what it overwrote; the
 * accumulators of a tile leave no register for that. */
static inline vf v_accumulate(vf a, vf b, vf acc) {
#ifdef __clang__
    return _mm256_fmadd_ps(a, b, acc);
#else
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "xm"(b));
    return acc;
#endif
}

static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }

static inline vf v_max_abs(vf a, vf b) {
    const __m256i magnitude = _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), b));
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), magnitude));
}

static inline vm v_not_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NLT_UQ); }
static inline vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vm v_nan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static inline vf v_canonical(vf a) {
    const vf kept = _mm256_andnot_ps(v_eq(a, _mm256_setzero_ps()), a);
    return _mm256_blendv_ps(kept, _mm256_set1_ps(NAN), v_nan(a));
}
static inline vm v_bits(uint32_t bits) {
    __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane));
}
static inline vm v_bits_at(const uint64_t *words, int64_t at) {
    return v_bits(((const uint8_t *)words)[(uint64_t)at / 8]);
}
static inline uint32_t v_to_bits(vm m) { return (uint32_t)_mm256_movemask_ps(m); }
static inline vf v_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
static inline vf v_max_where(vm m, vf a, vf b) { return v_select(m, v_max(a, b), b); }
static inline vf v_fma_where(vm m, vf a, vf b, vf c) { return _mm256_and_ps(m, _mm256_fmadd_ps(a, b, c)); }

static inline vf v_mul_where(vm m, vf a, vf b) { return _mm256_blendv_ps(a, _mm256_mul_ps(a, b), m); }
static inline vf v_negative(vf a) { return _mm256_or_ps(a, _mm256_set1_ps(-0.0f)); }
static inline vf v_with_sign(vf a, vf b) {
    return _mm256_and_ps(a, _mm256_or_ps(b, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff))));
}

static inline vi v_half_octave(vf a, vf edge) {
    const __m256i first = _mm256_sub_epi32(_mm256_castps_si256(edge), _mm256_set1_epi32((1 << 22) - 1));
    return _mm256_srli_epi32(_mm256_sub_epi32(_mm256_max_epu32(_mm256_castps_si256(a), first), first), 22);
}

static inline vf v_lookup(vi at, const float table[8]) { return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at); }

static inline vf v_exp2_lookup(vf t, const uint32_t table[8]) {
    const __m256i k = _mm256_castps_si256(t), all = _mm256_loadu_si256((const __m256i *)table);
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_permutevar8x32_epi32(all, k), _mm256_slli_epi32(k, 20)));
}

/* Transposes both 4 x 4 blocks of v[0..3], a block being the same half of the four vectors: 8 shuffles. */
static inline void v_transpose_halves(vf v[4]) {
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(v[0], v[1])),
                  b = _mm256_castps_pd(_mm256_unpackhi_ps(v[0], v[1]));
    const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(v[2], v[3])),
                  d = _mm256_castps_pd(_mm256_unpackhi_ps(v[2], v[3]));
    v[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    v[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    v[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    v[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
}

/* 24 shuffles. */
static inline void v_transpose(vf v[8]) {
    for (int i = 0; i < 4; i++) {
        const vf low = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
        v[i] = low;
    }
    v_transpose_halves(v);
    v_transpose_halves(v + 4);
}

static inline __m128 v_quarter(const char *p) { return _mm_loadu_ps((const float *)(const void *)p); }

/* The loads put the blocks in their places, two halves to a vector: 8 shuffles are left. */
static inline void v_load_transposed_quads(vf v[4], const void *p, int64_t bytes) {
    for (int i = 0; i < 4; i++) {
        const char *q = (const char *)p + i * bytes;
        v[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(v_quarter(q)), v_quarter(q + 4 * bytes), 1);
    }
    v_transpose_halves(v);
}

static inline void v_load_transposed_words(vf v[8], const void *p, int64_t bytes) {
    for (int c = 0; c < 8; c += 4)
        v_load_transposed_quads(v + c, (const char *)p + c * 4, bytes);
}

static inline void v_load_transposed(vf v[8], const float *p, int64_t ld) { v_load_transposed_words(v, p, 4 * ld); }

static inline void v_deinterleave(vf a, vf b, vf *even, vf *odd) {
    const __m256d low = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)),
                  high = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(low, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(high, 0xd8));
}
static inline void v_interleave(vf even, vf odd, vf *a, vf *b) {
    const vf low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}

static inline void v_unzip(vf a, vf b, const int half, vf *low, vf *high) {
    const __m256d c = _mm256_castps_pd(a), d = _mm256_castps_pd(b);
    switch (half) {
    case 4:
        *low = _mm256_permute2f128_ps(a, b, 0x20);
        *high = _mm256_permute2f128_ps(a, b, 0x31);
        break;
    case 2:
        *low = _mm256_castpd_ps(_mm256_unpacklo_pd(c, d));
        *high = _mm256_castpd_ps(_mm256_unpackhi_pd(c, d));
        break;
    default:
        *low = _mm256_shuffle_ps(a, b, 0x88);
        *high = _mm256_shuffle_ps(a, b, 0xdd);
        break;
    }
}

static inline uint64_t v_bytes_to_bits(const uint8_t *mask, int64_t n) {
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i zero = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(mask + i)), _mm256_setzero_si256());
        bits |= (uint64_t)(uint32_t)~_mm256_movemask_epi8(zero) << i;
    }
    for (; i < n; i++)
        bits |= (uint64_t)(mask[i] != 0) << i;
    return bits;
}

#endif
