/* Integers in words of 4 bytes for AVX2, 8 words: of weights in groups (groups.h).
 *
 *   vw            FV_W words        w_load, w_store  at any address        w_set1  the same word in all
 *   w_add, w_sub            by words; w_sub_16, w_sub_8  by halves and bytes; w_xor, w_and, w_or
 *   w_left, w_right         words shifted, zeros come in
 *   w_times(a, b)           the low halves of products of words
 *   w_bytes(a)              the lowest byte of each word in all four
 *   w_even(a), w_odd(a)     bytes 0 and 2, and 1 and 3, of each word as int16
 *   w_byte(a, byte)         that byte of each word, with its sign
 *   w_lookup(table, a)      bytes, at most 15, become those of table = w_table(p): *p to p[15]
 *   w_as_float(a)           words are the bits of floats
 *   w_float(a)              words as floats, rounded       w_of_float(a)  the other way, of integers
 *   w_add_pairs(sums, b, a)   sums of the products of two int16 are added: by VPDPWSSD (AVX-VNNI), or VPMADDWD
 *   w_add_bytes(sums, b, a)   of four bytes, those of b without sign: only with AVX-VNNI */
#ifndef FV_INTEGERS_AVX2_H
#define FV_INTEGERS_AVX2_H

#include "simd/simd_avx2.h"

typedef __m256i vw;

static inline vw w_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void w_store(void *p, vw a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline vw w_set1(uint32_t a) { return _mm256_set1_epi32((int)a); }
static inline vw w_sub(vw a, vw b) { return _mm256_sub_epi32(a, b); }
static inline vw w_add(vw a, vw b) { return _mm256_add_epi32(a, b); }
static inline vw w_sub_16(vw a, vw b) { return _mm256_sub_epi16(a, b); }
static inline vw w_sub_8(vw a, vw b) { return _mm256_sub_epi8(a, b); }
static inline vw w_xor(vw a, vw b) { return _mm256_xor_si256(a, b); }
static inline vw w_and(vw a, vw b) { return _mm256_and_si256(a, b); }
static inline vw w_or(vw a, vw b) { return _mm256_or_si256(a, b); }
static inline vw w_left(vw a, int bits) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128(bits)); }
static inline vw w_right(vw a, int bits) { return _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits)); }
static inline vw w_times(vw a, vw b) { return _mm256_mullo_epi32(a, b); }
static inline vw w_bytes(vw a) {
    return _mm256_shuffle_epi8(
        a, _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0));
}
static inline vw w_table(const int8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vw w_lookup(vw table, vw a) { return _mm256_shuffle_epi8(table, a); }
static inline vf w_as_float(vw a) { return _mm256_castsi256_ps(a); }
static inline vw w_even(vw a) { return _mm256_maddubs_epi16(_mm256_set1_epi16(0x0001), a); }
static inline vw w_odd(vw a) { return _mm256_maddubs_epi16(_mm256_set1_epi16(0x0100), a); }
static inline vw w_byte(vw a, const int byte) { return _mm256_srai_epi32(_mm256_slli_epi32(a, 24 - 8 * byte), 24); }
static inline vf w_float(vw a) { return _mm256_cvtepi32_ps(a); }
static inline vw w_of_float(vf a) { return _mm256_cvttps_epi32(a); }

#ifdef __AVXVNNI__
/* gcc would move sums about, as of v_accumulate. */
#ifdef __clang__
#define INTEGERS_ADD(instruction, intrinsic) return _mm256_##intrinsic(sums, b, a)
#else
#define INTEGERS_ADD(instruction, intrinsic)                                                                           \
    __asm__("%{vex%} " instruction " %2, %1, %0" : "+x"(sums) : "x"(b), "x"(a));                                       \
    return sums
#endif
static inline vw w_add_pairs(vw sums, vw b, vw a) { INTEGERS_ADD("vpdpwssd", dpwssd_avx_epi32); }
static inline vw w_add_bytes(vw sums, vw b, vw a) { INTEGERS_ADD("vpdpbusd", dpbusd_avx_epi32); }
#undef INTEGERS_ADD
#else
static inline vw w_add_pairs(vw sums, vw b, vw a) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(b, a));
    __asm__("" : "+x"(sums)); /* gcc would add products first, which takes more registers than there are */
    return sums;
}
#endif

#endif
