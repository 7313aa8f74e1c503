/* Instructions of 16 bits in portable C. Sources: Intel's SDM and measurement for VDPBF16PS and TDPBF16PS
 * (the pseudocode of Intel's intrinsics guide for TDPBF16PS is another), the Arm ARM for BFMLALB, BFMLALT, FMLAL and
 * FMLAL2. They ignore MXCSR: to be called in round to nearest, with nothing flushed. NaN: any. */
#ifndef FV_EMULATE_H
#define FV_EMULATE_H

#include "simd/half_scalar.h"

#include <math.h>

/* Subnormal numbers are zeros, for operands and results. */
static inline float emulate_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

static inline float emulate_low(uint32_t pair) { return half_float(pair << 16); }
static inline float emulate_high(uint32_t pair) { return half_float(pair & 0xffff0000u); }

/* acc + a * b, rounded once. */
static inline float emulate_step(float acc, float a, float b) {
    return emulate_flushed(fmaf(emulate_flushed(a), emulate_flushed(b), emulate_flushed(acc)));
}

/* VDPBF16PS: the high elements first, then the low ones. */
static inline float emulate_vdpbf16ps(float acc, uint32_t a, uint32_t b) {
    return emulate_step(emulate_step(acc, emulate_high(a), emulate_high(b)), emulate_low(a), emulate_low(b));
}

/* TDPBF16PS, one output: two chains from +0, of the low and of the high elements; their sum is added to acc. b of the
 * next pair is step further. */
static inline float emulate_tdpbf16ps(float acc, int64_t pairs, const uint32_t *a, const uint32_t *b, int64_t step) {
    float low = 0.0f, high = 0.0f;
    for (int64_t t = 0; t < pairs; t++) {
        low = emulate_step(low, emulate_low(a[t]), emulate_low(b[t * step]));
        high = emulate_step(high, emulate_high(a[t]), emulate_high(b[t * step]));
    }
    return emulate_flushed(emulate_flushed(acc) + emulate_flushed(low + high));
}

/* VCVTNEPS2BF16: to nearest, subnormal floats to zero. */
static inline uint32_t emulate_vcvtneps2bf16(float x) { return half_narrow_bf16(emulate_flushed(x)); }

#endif
