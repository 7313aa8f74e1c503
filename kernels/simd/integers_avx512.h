/* Integers in words of 4 bytes for AVX-512, 16 words. The words are explained in integers_avx2.h. */
#ifndef FV_INTEGERS_AVX512_H
#define FV_INTEGERS_AVX512_H

#include "simd/simd_avx512.h"

typedef __m512i vw;

static inline vw w_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void w_store(void *p, vw a) { _mm512_storeu_si512(p, a); }
static inline vw w_set1(uint32_t a) { return _mm512_set1_epi32((int)a); }
static inline vw w_sub(vw a, vw b) { return _mm512_sub_epi32(a, b); }
static inline vw w_add(vw a, vw b) { return _mm512_add_epi32(a, b); }
static inline vw w_sub_16(vw a, vw b) { return _mm512_sub_epi16(a, b); }
static inline vw w_sub_8(vw a, vw b) { return _mm512_sub_epi8(a, b); }
static inline vw w_xor(vw a, vw b) { return _mm512_xor_si512(a, b); }
static inline vw w_and(vw a, vw b) { return _mm512_and_si512(a, b); }
static inline vw w_or(vw a, vw b) { return _mm512_or_si512(a, b); }
static inline vw w_left(vw a, int bits) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits)); }
static inline vw w_right(vw a, int bits) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits)); }
static inline vw w_times(vw a, vw b) { return _mm512_mullo_epi32(a, b); }
static inline vw w_bytes(vw a) {
    return _mm512_shuffle_epi8(a, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
}
static inline vw w_table(const int8_t *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vw w_lookup(vw table, vw a) { return _mm512_shuffle_epi8(table, a); }
static inline vf w_as_float(vw a) { return _mm512_castsi512_ps(a); }
static inline vw w_even(vw a) { return _mm512_maddubs_epi16(_mm512_set1_epi16(0x0001), a); }
static inline vw w_odd(vw a) { return _mm512_maddubs_epi16(_mm512_set1_epi16(0x0100), a); }
static inline vw w_byte(vw a, const int byte) {
    return _mm512_srai_epi32(_mm512_slli_epi32(a, 24 - 8 * (unsigned)byte), 24);
}
/* The first n words, 0 behind them; and the planes of two vectors of rows of i8x2 (groups.h). */
static inline vw w_load_n(const void *p, int64_t n) {
    return _mm512_maskz_loadu_epi32((__mmask16)(n >= 16 ? 0xffff : n > 0 ? (1U << n) - 1 : 0), p);
}
static inline vw w_high(vw a, vw b) { return _mm512_shuffle_i32x4(a, b, 0x88); }
static inline vw w_low(vw a, vw b) { return _mm512_shuffle_i32x4(a, b, 0xdd); }
static inline vf w_float(vw a) { return _mm512_cvtepi32_ps(a); }
static inline vw w_of_float(vf a) { return _mm512_cvttps_epi32(a); }

/* gcc would move sums about, as of v_accumulate. */
#ifdef __clang__
#define INTEGERS_ADD(instruction, intrinsic) return _mm512_##intrinsic(sums, b, a)
#else
#define INTEGERS_ADD(instruction, intrinsic)                                                                           \
    __asm__(instruction " %2, %1, %0" : "+v"(sums) : "v"(b), "v"(a));                                                  \
    return sums
#endif
#ifdef __AVX512VNNI__
static inline vw w_add_pairs(vw sums, vw b, vw a) { INTEGERS_ADD("vpdpwssd", dpwssd_epi32); }
static inline vw w_add_bytes(vw sums, vw b, vw a) { INTEGERS_ADD("vpdpbusd", dpbusd_epi32); }
#endif
#undef INTEGERS_ADD

#endif
