/* bfloat16 and float16 for NEON: 4 lanes. The words are explained in half_scalar.h. FCVTN rounds by the caller's mode,
 * so there is no v_narrow_f16: the portable row does it. */
#ifndef FV_HALF_NEON_H
#define FV_HALF_NEON_H

#include "simd/simd_neon.h"

static inline uint16x4_t half_load_n(const uint16_t *p, int64_t n) {
    uint16_t all[FV_W] = {0};
    memcpy(all, p, (size_t)n * sizeof *p);
    return vld1_u16(all);
}

static inline uint32x4_t half_quiet(uint32x4_t bits, vm nan) {
    return vorrq_u32(bits, vandq_u32(nan, vdupq_n_u32(0x400000)));
}

static inline vf half_from_bf16(uint16x4_t h) {
    const uint32x4_t bits = vshll_n_u16(h, 16);
    return vreinterpretq_f32_u32(half_quiet(bits, v_nan(vreinterpretq_f32_u32(bits))));
}

/* Rounded, in the upper halves. */
static inline uint32x4_t half_rounded_bf16(vf a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    return vbslq_u32(v_nan(a), half_quiet(bits, v_nan(a)), rounded);
}

static inline uint16x4_t half_to_bf16(vf a) { return vshrn_n_u32(half_rounded_bf16(a), 16); }

static inline vf half_from_f16(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }

static inline vf v_pair_first(const float *p) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v_load(p)), vdupq_n_u32(0xffff0000)));
}
static inline vf v_pair_second(const float *p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(v_load(p)), 16));
}
static inline vf v_widen_bf16(const uint16_t *p) { return half_from_bf16(vld1_u16(p)); }
static inline vf v_widen_f16(const uint16_t *p) { return half_from_f16(vld1_u16(p)); }
static inline vf v_weight_bf16(vf a) {
    const uint32x4_t bits = vminq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(0x7fc00000)),
                     odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    return vreinterpretq_f32_u32(vandq_u32(rounded, vdupq_n_u32(0xffff0000u)));
}
static inline void v_store_pairs(float *words, const vf *x, int count) {
    for (int i = 0; i < count; i++) {
        const uint64x2_t bits = vreinterpretq_u64_f32(x[i]);
        vst1_f32(words + i * FV_W / 2, vreinterpret_f32_u32(vmovn_u64(vorrq_u64(bits, vshrq_n_u64(bits, 48)))));
    }
}
static inline void v_narrow_bf16(uint16_t *p, vf a) { vst1_u16(p, half_to_bf16(a)); }
static inline vf v_widen_bf16_n(const uint16_t *p, int64_t n) { return half_from_bf16(half_load_n(p, n)); }
static inline vf v_widen_f16_n(const uint16_t *p, int64_t n) { return half_from_f16(half_load_n(p, n)); }
static inline void v_narrow_bf16_n(uint16_t *p, int64_t n, vf a) {
    uint16_t all[FV_W];
    vst1_u16(all, half_to_bf16(a));
    memcpy(p, all, (size_t)n * sizeof *p);
}

static inline vf v_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
static inline vf v_load_f16(const uint16_t *p) { return v_widen_f16(p); }

static inline void v_pair_bf16(vf words, vf *first, vf *second) {
    const uint32x4_t w = vreinterpretq_u32_f32(words);
    *first = vreinterpretq_f32_u32(vshlq_n_u32(w, 16));
    *second = vreinterpretq_f32_u32(vandq_u32(w, vdupq_n_u32(0xffff0000)));
}

static inline void v_pair_f16(vf words, vf *first, vf *second) {
    const uint32x4_t w = vreinterpretq_u32_f32(words);
    *first = half_from_f16(vmovn_u32(w));
    *second = half_from_f16(vshrn_n_u32(w, 16));
}

#endif
