/* The vocabulary for AVX-512 (F, BW, DQ, VL): 16 lanes, masks in mask registers. The words are explained in
 * simd_scalar.h. */
#ifndef FV_SIMD_AVX512_H
#define FV_SIMD_AVX512_H

#include <assert.h>
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define FV_W 16

typedef __m512 vf;
typedef __mmask16 vm;
typedef __m512i vi;

static inline __mmask16 v_first(int64_t n) { return (__mmask16)((1u << n) - 1u); }

static inline vf v_set1(float x) { return _mm512_set1_ps(x); }
static inline vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf v_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
static inline void v_store_n(float *p, int64_t n, vf a) { _mm512_mask_storeu_ps(p, v_first(n), a); }

static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }

/* gcc would choose the form of the instruction that overwrites a or b, and then move or spill what it overwrote; the
 * accumulators of a tile leave no register for that. */
static inline vf v_accumulate(vf a, vf b, vf acc) {
#ifdef __clang__
    return _mm512_fmadd_ps(a, b, acc);
#else
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "vm"(b));
    return acc;
#endif
}

static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }

static inline vf v_max_abs(vf a, vf b) {
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(_mm512_abs_ps(b))));
}

static inline vm v_not_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
static inline vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vm v_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }

/* Four bits for each kind of number, from the lowest: NaNs become the first operand, 0 and -0 become 0 (8), others stay
 * as they are (1). */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* gcc 12, -O0: a macro there, with a mask of the other sign */
static inline vf v_canonical(vf a) {
    return _mm512_fixupimm_ps(_mm512_set1_ps(NAN), a, _mm512_set1_epi32(0x11111800), 0);
}
#pragma GCC diagnostic pop

static inline vm v_bits(uint32_t bits) { return (vm)bits; }
static inline vm v_bits_at(const uint64_t *words, int64_t at) { /* from memory: no shift */
    uint16_t bits;
    memcpy(&bits, (const char *)words + (uint64_t)at / 8, sizeof bits);
    return bits;
}
static inline uint32_t v_to_bits(vm m) { return m; }
static inline vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vf v_max_where(vm m, vf a, vf b) { return _mm512_mask_max_ps(b, m, a, b); }
static inline vf v_fma_where(vm m, vf a, vf b, vf c) { return _mm512_maskz_fmadd_ps(m, a, b, c); }

static inline vf v_mul_where(vm m, vf a, vf b) { return _mm512_mask_mul_ps(a, m, a, b); }
static inline vf v_negative(vf a) { return _mm512_or_ps(a, _mm512_set1_ps(-0.0f)); }
static inline vf v_with_sign(vf a, vf b) { /* 0xe0: a and (b or rest) */
    const __m512i rest = _mm512_set1_epi32(0x7fffffff);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b), rest, 0xe0));
}

static inline vi v_half_octave(vf a, vf edge) {
    const __m512i first = _mm512_sub_epi32(_mm512_castps_si512(edge), _mm512_set1_epi32((1 << 22) - 1));
    return _mm512_srli_epi32(_mm512_sub_epi32(_mm512_max_epu32(_mm512_castps_si512(a), first), first), 22);
}

/* Tables of 8 for an index of 4 bits. */
static inline vf v_lookup(vi at, const float table[8]) {
    return _mm512_permutexvar_ps(at, _mm512_broadcast_f32x8(_mm256_loadu_ps(table)));
}

static inline __m512i v_twice(const uint32_t table[8]) {
    return _mm512_broadcast_i32x8(_mm256_loadu_si256((const __m256i *)table));
}

static inline vf v_exp2_lookup(vf t, const uint32_t table[8]) {
    const __m512i k = _mm512_castps_si512(t);
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_permutexvar_epi32(k, v_twice(table)), _mm512_slli_epi32(k, 20)));
}

/* Transposes each 4 x 4 block of v[0..3], a block being the same quarter of the four vectors: 8 shuffles. */
static inline void v_transpose_quarters(vf v[4]) {
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(v[0], v[1])),
                  b = _mm512_castps_pd(_mm512_unpackhi_ps(v[0], v[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(v[2], v[3])),
                  d = _mm512_castps_pd(_mm512_unpackhi_ps(v[2], v[3]));
    v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

static inline void v_transpose(vf v[16]) { /* 64 shuffles */
    for (int i = 0; i < 4; i++)
        v_transpose_quarters(v + 4 * i);
    for (int i = 0; i < 4; i++) {
        const vf a = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x44), b = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x44),
                 c = _mm512_shuffle_f32x4(v[i], v[i + 4], 0xee), d = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xee);
        v[i] = _mm512_shuffle_f32x4(a, b, 0x88);
        v[i + 4] = _mm512_shuffle_f32x4(a, b, 0xdd);
        v[i + 8] = _mm512_shuffle_f32x4(c, d, 0x88);
        v[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

static inline __m128 v_quarter(const char *p) { return _mm_loadu_ps((const float *)(const void *)p); }

/* Rows are `bytes` bytes apart. The loads put the blocks in their places, four quarters to a vector: 8 shuffles are
 * left. */
static inline void v_load_transposed_quads(vf v[4], const void *p, int64_t bytes) {
    for (int i = 0; i < 4; i++) {
        const char *q = (const char *)p + i * bytes;
        vf x = _mm512_castps128_ps512(v_quarter(q));
        x = _mm512_insertf32x4(x, v_quarter(q + 4 * bytes), 1);
        x = _mm512_insertf32x4(x, v_quarter(q + 8 * bytes), 2);
        v[i] = _mm512_insertf32x4(x, v_quarter(q + 12 * bytes), 3);
    }
    v_transpose_quarters(v);
}

static inline void v_load_transposed_words(vf v[16], const void *p, int64_t bytes) {
    for (int c = 0; c < 16; c += 4)
        v_load_transposed_quads(v + c, (const char *)p + c * 4, bytes);
}

static inline void v_load_transposed(vf v[16], const float *p, int64_t ld) { v_load_transposed_words(v, p, 4 * ld); }

static inline void v_deinterleave(vf a, vf b, vf *even, vf *odd) {
    const __m512i order = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(a, order, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_or_si512(order, _mm512_set1_epi32(1)), b);
}
static inline void v_interleave(vf even, vf odd, vf *a, vf *b) {
    const __m512i order = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    *a = _mm512_permutex2var_ps(even, order, odd);
    *b = _mm512_permutex2var_ps(even, _mm512_or_si512(order, _mm512_set1_epi32(8)), odd);
}

static inline void v_unzip(vf a, vf b, const int half, vf *low, vf *high) {
    const __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
    switch (half) {
    case 8:
        *low = _mm512_shuffle_f32x4(a, b, 0x44);
        *high = _mm512_shuffle_f32x4(a, b, 0xee);
        break;
    case 4:
        *low = _mm512_shuffle_f32x4(a, b, 0x88);
        *high = _mm512_shuffle_f32x4(a, b, 0xdd);
        break;
    case 2:
        *low = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        *high = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
        break;
    default:
        *low = _mm512_shuffle_ps(a, b, 0x88);
        *high = _mm512_shuffle_ps(a, b, 0xdd);
        break;
    }
}

static inline uint64_t v_bytes_to_bits(const uint8_t *mask, int64_t n) {
    __mmask64 named = n < 64 ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
    __m512i bytes = _mm512_maskz_loadu_epi8(named, mask);
    return _mm512_test_epi8_mask(bytes, bytes);
}

#endif
