/* The vocabulary in portable C: vectors of one lane. The exact meaning of every word; the other simd_*.h do the same
 * for W lanes at once. No word reads or writes an element that it does not name.
 *
 *   vf  W floats         vm  a mask of W lanes       FV_W  W, a divisor of FV_LANES
 *   v_load_n, v_store_n  the first n lanes only, 0 < n < W, with 8 or 16 lanes also n = W; lanes past them load as +0
 *                        and are not touched in memory
 *   v_max                the greater; b if either is NaN: a chain of maxima that begins with a number leaves NaN out
 *   v_not_lt             not a < b: true if either is NaN     v_nan  is NaN
 *   v_max_abs            the greater of a, which is not negative, and |b|; a NaN is greater than any number
 *   v_le                 a <= b: false if either is NaN
 *   v_canonical          one bit pattern for NaN, +0 for -0: what the operands of an operation were does not show
 *   v_bits               lanes of the low W bits     v_bits_at(words, at)  of W bits of an array, at being a multiple
 *                        of W
 *   v_select(m, a, b)    a where m, else b              v_fma_where(m, a, b, c)  fma where m, else +0
 *   v_mul_where(m, a, b) a * b where m, else a       v_max_where(m, a, b)  v_max(a, b) where m, else b
 *   v_negative           -|a|                           v_with_sign(a, b)  a, whose sign bit is set, with the sign of b
 *   vi                   W integers: v_half_octave(a, edge)  0 for |a| <= |edge|, one more for each 2^22 that the bits
 *                        of a lie beyond; a and edge have their sign bit set, a may be a NaN, whose integer may be any
 *   v_lookup(at, table)  entries at modulo 8
 *   v_exp2_lookup(t, table)  the bits of entry k % 8 minus k 2^20, as a float, for t = 2^23 + k (see body/v_exp.h)
 *   v_transpose          W vectors, lane r of vector c becomes lane c of vector r
 *   v_load_transposed    W rows of W elements, ld apart, as W columns
 *   v_load_transposed_words  likewise, of any 4-byte words at any address, rows `bytes` bytes apart
 *   v_load_transposed_quads  likewise, four words of each of W rows; vectors of 4 lanes or more
 *   v_unzip(a, b, half, low, high)  the lower halves of each 2 half lanes of a and of b, and the upper ones; half is a
 *                        constant; W > 4 lanes: of a first, then of b; half < 4: this within each four lanes
 *   v_deinterleave(a, b, even, odd)  lanes 0, 2, ... of a, then of b, and lanes 1, 3, ...; vectors of 4 lanes or more
 *   v_interleave(even, odd, a, b)    back
 *   v_bytes_to_bits      bit i: mask[i] != 0, for i < n <= 64
 */
#ifndef FV_SIMD_SCALAR_H
#define FV_SIMD_SCALAR_H

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define FV_W 1

typedef float vf;
typedef _Bool vm;
typedef uint32_t vi;

static inline vf v_set1(float x) { return x; }
static inline vf v_load(const float *p) { return *p; }
static inline void v_store(float *p, vf a) { *p = a; }
static inline vf v_load_n(const float *p, int64_t n) {
    (void)n;
    return *p;
}
static inline void v_store_n(float *p, int64_t n, vf a) {
    (void)n;
    *p = a;
}

static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
static inline vf v_accumulate(vf a, vf b, vf acc) { return v_fma(a, b, acc); }
static inline vf v_max(vf a, vf b) {
    int greater = a > b;
#if defined(__clang__) && defined(__aarch64__) /* which makes FMAXNM of it where b is a constant (simd_neon.h) */
    __asm__("" : "+r"(greater));
#endif
    return greater ? a : b;
}

static inline vf v_max_abs(vf a, vf b) { return fabsf(b) <= a || a != a ? a : fabsf(b); }

static inline vm v_not_lt(vf a, vf b) { return !(a < b); }
static inline vm v_le(vf a, vf b) { return a <= b; }
static inline vm v_eq(vf a, vf b) { return a == b; }
static inline vm v_nan(vf a) { return a != a; }
static inline vf v_canonical(vf a) { return a != a ? NAN : a == 0.0f ? 0.0f : a; }
static inline vm v_bits(uint32_t bits) { return bits & 1; }
static inline vm v_bits_at(const uint64_t *words, int64_t at) { return words[at / 64] >> (at % 64) & 1; }
static inline uint32_t v_to_bits(vm m) { return m; }
static inline vf v_select(vm m, vf a, vf b) { return m ? a : b; }
static inline vf v_max_where(vm m, vf a, vf b) { return m ? v_max(a, b) : b; }
static inline vf v_fma_where(vm m, vf a, vf b, vf c) { return m ? v_fma(a, b, c) : 0.0f; }

static inline vf v_mul_where(vm m, vf a, vf b) { return m ? a * b : a; }
static inline vf v_negative(vf a) { return copysignf(a, -1.0f); }
static inline vf v_with_sign(vf a, vf b) { return copysignf(a, b); }

static inline vi v_half_octave(vf a, vf edge) {
    uint32_t bits, first;
    memcpy(&bits, &a, sizeof bits);
    memcpy(&first, &edge, sizeof first);
    first -= (1u << 22) - 1;
    return bits > first ? (bits - first) >> 22 : 0;
}

static inline vf v_lookup(vi at, const float table[8]) { return table[at % 8]; }

static inline vf v_exp2_lookup(vf t, const uint32_t table[8]) {
    uint32_t k;
    memcpy(&k, &t, sizeof k);
    k = table[k % 8] - (k << 20);
    memcpy(&t, &k, sizeof t);
    return t;
}

static inline void v_load_transposed_words(vf v[1], const void *p, int64_t bytes) {
    (void)bytes;
    memcpy(v, p, sizeof *v);
}
static inline void v_transpose(vf v[1]) { (void)v; }
static inline void v_load_transposed(vf v[1], const float *p, int64_t ld) { v_load_transposed_words(v, p, 4 * ld); }

static inline void v_unzip(vf a, vf b, const int half, vf *low, vf *high) {
    (void)half;
    *low = a;
    *high = b;
}

static inline uint64_t v_bytes_to_bits(const uint8_t *mask, int64_t n) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i++)
        bits |= (uint64_t)(mask[i] != 0) << i;
    return bits;
}

#endif
