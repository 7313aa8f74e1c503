/* The vocabulary for NEON (Advanced SIMD of 64-bit Arm, Armv8.0-A): 4 lanes, masks in vector registers. The words are
 * explained in simd_scalar.h.
 *
 * v_max is a comparison and a selection, though FMAX and FMAXNM are one instruction: these quiet a NaN, and under
 * flush-to-zero give 0 for a maximum that is subnormal, which no other tier does. */
#ifndef FV_SIMD_NEON_H
#define FV_SIMD_NEON_H

#include <arm_neon.h>
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define FV_W 4

typedef float32x4_t vf;
typedef uint32x4_t vm;
typedef uint32x4_t vi;

static inline vf v_set1(float x) { return vdupq_n_f32(x); }
static inline vf v_load(const float *p) { return vld1q_f32(p); }
static inline void v_store(float *p, vf a) { vst1q_f32(p, a); }

/* There are no masked loads: the first two lanes at once, the odd one by itself. */
static inline vf v_load_n(const float *p, int64_t n) {
    const float32x2_t zero = vdup_n_f32(0.0f);
    if (n == 1)
        return vcombine_f32(vld1_lane_f32(p, zero, 0), zero);
    const float32x2_t low = vld1_f32(p);
    return vcombine_f32(low, n == 2 ? zero : vld1_lane_f32(p + 2, zero, 0));
}
static inline void v_store_n(float *p, int64_t n, vf a) {
    if (n >= 2)
        vst1_f32(p, vget_low_f32(a));
    if (n == 3)
        vst1q_lane_f32(p + 2, a, 2);
    else if (n == 1)
        vst1q_lane_f32(p, a, 0);
}

static inline vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf v_accumulate(vf a, vf b, vf acc) { return v_fma(a, b, acc); }
static inline vf v_max(vf a, vf b) {
    uint32x4_t greater = vcgtq_f32(a, b);
    __asm__("" : "+w"(greater)); /* clang makes FMAXNM of it where b is a constant */
    return vbslq_f32(greater, a, b);
}

static inline vf v_max_abs(vf a, vf b) {
    const uint32x4_t magnitude = vbicq_u32(vreinterpretq_u32_f32(b), vdupq_n_u32(0x80000000));
    return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), magnitude));
}

static inline vm v_not_lt(vf a, vf b) { return vmvnq_u32(vcltq_f32(a, b)); }
static inline vm v_le(vf a, vf b) { return vcleq_f32(a, b); }
static inline vm v_eq(vf a, vf b) { return vceqq_f32(a, b); }
static inline vm v_nan(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
static inline vf v_canonical(vf a) {
    const vf zero = vdupq_n_f32(0.0f), kept = vbslq_f32(vceqq_f32(a, zero), zero, a);
    return vbslq_f32(vceqq_f32(a, a), kept, vdupq_n_f32(NAN));
}
static inline uint32x4_t v_lane_bits(void) {
    static const uint32_t lane[4] = {1, 2, 4, 8};
    return vld1q_u32(lane);
}
static inline vm v_bits(uint32_t bits) { return vtstq_u32(vdupq_n_u32(bits), v_lane_bits()); }
static inline vm v_bits_at(const uint64_t *words, int64_t at) {
    return v_bits((uint32_t)(words[at / 64] >> (at % 64)));
}
static inline uint32_t v_to_bits(vm m) { return vaddvq_u32(vandq_u32(m, v_lane_bits())); }
static inline vf v_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
static inline vf v_max_where(vm m, vf a, vf b) { return v_select(m, v_max(a, b), b); }
static inline vf v_fma_where(vm m, vf a, vf b, vf c) {
    return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(vfmaq_f32(c, a, b))));
}

static inline vf v_mul_where(vm m, vf a, vf b) { return vbslq_f32(m, vmulq_f32(a, b), a); }
static inline vf v_negative(vf a) {
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(0x80000000)));
}
static inline vf v_with_sign(vf a, vf b) { return vbslq_f32(vdupq_n_u32(0x80000000), b, a); }

static inline vi v_half_octave(vf a, vf edge) {
    const uint32x4_t first = vsubq_u32(vreinterpretq_u32_f32(edge), vdupq_n_u32((1u << 22) - 1));
    return vshrq_n_u32(vsubq_u32(vmaxq_u32(vreinterpretq_u32_f32(a), first), first), 22);
}

/* Tables are looked up by bytes: those of entry i are 4 i to 4 i + 3. (Bytes of one rank together, whose places take
 * a lookup and a selection instead of the product, are modelled as slower.) */
static inline uint32x4_t v_entries(uint32x4_t at, uint32x4_t low, uint32x4_t high) {
    const uint8x16x2_t bytes = {{vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)}};
    const uint32x4_t place = vmlaq_u32(vdupq_n_u32(0x03020100), vandq_u32(at, vdupq_n_u32(7)), vdupq_n_u32(0x04040404));
    return vreinterpretq_u32_u8(vqtbl2q_u8(bytes, vreinterpretq_u8_u32(place)));
}

static inline vf v_lookup(vi at, const float table[8]) {
    return vreinterpretq_f32_u32(
        v_entries(at, vreinterpretq_u32_f32(vld1q_f32(table)), vreinterpretq_u32_f32(vld1q_f32(table + 4))));
}

static inline vf v_exp2_lookup(vf t, const uint32_t table[8]) {
    const uint32x4_t k = vreinterpretq_u32_f32(t);
    return vreinterpretq_f32_u32(vsubq_u32(v_entries(k, vld1q_u32(table), vld1q_u32(table + 4)), vshlq_n_u32(k, 20)));
}

static inline vf v_from_halves(float64x2_t a) { return vreinterpretq_f32_f64(a); }

/* Pairs of lanes change places, then pairs of pairs: 8 shuffles. */
static inline void v_transpose(vf v[4]) {
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(v[0], v[1])),
                      b = vreinterpretq_f64_f32(vtrn2q_f32(v[0], v[1])),
                      c = vreinterpretq_f64_f32(vtrn1q_f32(v[2], v[3])),
                      d = vreinterpretq_f64_f32(vtrn2q_f32(v[2], v[3]));
    v[0] = v_from_halves(vtrn1q_f64(a, c));
    v[1] = v_from_halves(vtrn1q_f64(b, d));
    v[2] = v_from_halves(vtrn2q_f64(a, c));
    v[3] = v_from_halves(vtrn2q_f64(b, d));
}

static inline void v_load_transposed_words(vf v[4], const void *p, int64_t bytes) {
    for (int i = 0; i < 4; i++)
        v[i] = vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p + i * bytes));
    v_transpose(v);
}
static inline void v_load_transposed_quads(vf v[4], const void *p, int64_t bytes) {
    v_load_transposed_words(v, p, bytes);
}
static inline void v_load_transposed(vf v[4], const float *p, int64_t ld) { v_load_transposed_words(v, p, 4 * ld); }

static inline void v_deinterleave(vf a, vf b, vf *even, vf *odd) {
    *even = vuzp1q_f32(a, b);
    *odd = vuzp2q_f32(a, b);
}
static inline void v_interleave(vf even, vf odd, vf *a, vf *b) {
    *a = vzip1q_f32(even, odd);
    *b = vzip2q_f32(even, odd);
}

static inline void v_unzip(vf a, vf b, const int half, vf *low, vf *high) {
    const float64x2_t c = vreinterpretq_f64_f32(a), d = vreinterpretq_f64_f32(b);
    *low = half == 2 ? v_from_halves(vtrn1q_f64(c, d)) : vuzp1q_f32(a, b);
    *high = half == 2 ? v_from_halves(vtrn2q_f64(c, d)) : vuzp2q_f32(a, b);
}

/* 16 bytes at once: each keeps the bit of its place among 8, and three additions of neighbours gather them. */
static inline uint64_t v_bytes_to_bits(const uint8_t *mask, int64_t n) {
    static const uint8_t place[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8x16_t bytes = vld1q_u8(mask + i);
        uint8x16_t sum = vandq_u8(vtstq_u8(bytes, bytes), vld1q_u8(place));
        for (int fold = 0; fold < 3; fold++)
            sum = vpaddq_u8(sum, sum);
        bits |= (uint64_t)vgetq_lane_u16(vreinterpretq_u16_u8(sum), 0) << i;
    }
    for (; i < n; i++)
        bits |= (uint64_t)(mask[i] != 0) << i;
    return bits;
}

#endif
