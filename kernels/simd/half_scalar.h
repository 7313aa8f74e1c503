/* bfloat16 and float16 in portable C: the exact meaning of the words; the other half_*.h do the same for W lanes at
 * once. Elements are uint16_t. All is done by integers, so neither rounding mode nor flush-to-zero matter.
 *
 *   v_widen_bf16, v_widen_f16    exact, subnormals too; a NaN becomes quiet, with its payload in the top bits
 *   v_narrow_bf16, v_narrow_f16  to nearest, ties to even; subnormals are kept; too large: infinity; a NaN becomes
 *                                quiet, and keeps the top bits of its payload
 *   v_weight_bf16                of a from +0 to 1, not subnormal: v_narrow_bf16, as a float; a NaN becomes 0x7fc00000
 *   v_store_pairs                count vectors of such floats, together an even number, as words of pairs (kernels.h)
 *   v_pair_first, v_pair_second  of words of pairs of bfloat16 (kernels.h): the elements in their high halves, and in
 *                                the low ones, as floats; a NaN keeps its bits
 *   ..._n                        the first n lanes only, 0 < n < W, with 16 lanes also n = W
 *   v_load_bf16, v_load_f16      as v_widen, but a NaN stays one, of any payload
 *   v_pair_bf16, v_pair_f16      of a word of two elements, that at the lower address and the other one, exact; a NaN
 *                                stays one, of any payload
 */
#ifndef FV_HALF_SCALAR_H
#define FV_HALF_SCALAR_H

#include <stdint.h>
#include <string.h>

static inline float half_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t half_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_widen_bf16(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    return half_float((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits);
}

static inline float half_widen_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ffu;
    if (exponent == 31)
        return half_float(sign | 0x7f800000u | (fraction ? 0x400000u : 0) | fraction << 13);
    if (exponent)
        return half_float(sign | (exponent + 112) << 23 | fraction << 13);
    return half_float(sign | half_bits((float)fraction * 0x1p-24f));
}

static inline uint16_t half_narrow_bf16(float x) {
    const uint32_t bits = half_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline uint16_t half_narrow_f16(float x) {
    enum { INFINITE = 0x7c00, QUIET = 0x200 };
    const uint32_t bits = half_bits(x), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | INFINITE | QUIET | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16 */
        return (uint16_t)(sign | INFINITE);
    if (magnitude >= 0x38800000u) /* 2^-14: a normal number */
        return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
    if (magnitude <= 0x33000000u) /* 2^-25, half of the least */
        return (uint16_t)sign;
    const uint32_t shift = 126 - (magnitude >> 23), number = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = number >> shift, rest = number & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

#ifdef FV_SIMD_SCALAR_H
/* A word, which lies anywhere. */
static inline uint32_t half_word(const float *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}
static inline vf v_pair_first(const float *p) { return half_float(half_word(p) & 0xffff0000u); }
static inline vf v_pair_second(const float *p) { return half_float(half_word(p) << 16); }
static inline vf v_widen_bf16(const uint16_t *p) { return half_widen_bf16(*p); }
static inline vf v_widen_f16(const uint16_t *p) { return half_widen_f16(*p); }
static inline void v_narrow_bf16(uint16_t *p, vf a) { *p = half_narrow_bf16(a); }
static inline void v_narrow_f16(uint16_t *p, vf a) { *p = half_narrow_f16(a); }
static inline vf v_weight_bf16(vf a) {
    if (a != a)
        return half_float(0x7fc00000);
    return half_float((uint32_t)half_narrow_bf16(a) << 16);
}
static inline void v_store_pairs(float *words, const vf *x, int count) {
    for (int i = 0; i < count; i += 2)
        words[i / 2] = half_float((half_bits(x[i]) & 0xffff0000u) | half_bits(x[i + 1]) >> 16);
}
static inline vf v_widen_bf16_n(const uint16_t *p, int64_t n) { return (void)n, v_widen_bf16(p); }
static inline vf v_widen_f16_n(const uint16_t *p, int64_t n) { return (void)n, v_widen_f16(p); }
static inline void v_narrow_bf16_n(uint16_t *p, int64_t n, vf a) { (void)n, v_narrow_bf16(p, a); }
static inline void v_narrow_f16_n(uint16_t *p, int64_t n, vf a) { (void)n, v_narrow_f16(p, a); }

static inline vf v_load_bf16(const uint16_t *p) { return half_widen_bf16(*p); }
static inline vf v_load_f16(const uint16_t *p) { return half_widen_f16(*p); }

static inline void v_pair_bf16(vf words, vf *first, vf *second) {
    uint16_t half[2];
    memcpy(half, &words, sizeof half);
    *first = half_widen_bf16(half[0]);
    *second = half_widen_bf16(half[1]);
}

static inline void v_pair_f16(vf words, vf *first, vf *second) {
    uint16_t half[2];
    memcpy(half, &words, sizeof half);
    *first = half_widen_f16(half[0]);
    *second = half_widen_f16(half[1]);
}
#endif

#endif
