/* int8 for NEON: 4 lanes. The words are explained in int8_scalar.h.
 *
 * With FV_I8_PLANES, products by SDOT (dotprod), four channels at once; the planes of Q each have a sum. Else by SMLAL,
 * one channel at once, with sums of the even and of the odd channels' pairs side by side. */
#ifndef FV_INT8_NEON_H
#define FV_INT8_NEON_H

#include "simd/simd_neon.h"

static inline vf v_load_i8(const int8_t *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(word)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline vf v_load_u8(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}
static inline vf v_load_e8m0(const uint8_t *p) {
    const uint32x4_t one = vdupq_n_u32(1), e = vcvtq_u32_f32(v_load_u8(p)),
                     least = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e)),
                     none = vandq_u32(vceqq_u32(e, vdupq_n_u32(255)), vdupq_n_u32(0x00c00000)),
                     number = vorrq_u32(vshlq_n_u32(vsubq_u32(e, one), 23), none);
    return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, one), number, least));
}

#ifdef FV_I8_PLANES
typedef int8x16_t vi8;
typedef struct v_sums {
    int32x4_t high, low;
} v_sums;

static inline vi8 v_i8(vf words) { return vreinterpretq_s8_f32(words); }
static inline v_sums v_no_sums(void) { return (v_sums){vdupq_n_s32(0), vdupq_n_s32(0)}; }
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) { /* the planes are words 2 and 3 */
    const int8x16_t all = vld1q_s8((const int8_t *)q);
    sums.high = vdotq_laneq_s32(sums.high, k, all, 2);
    sums.low = vdotq_laneq_s32(sums.low, k, all, 3);
    return sums;
}
static inline int32x4_t v_sums_whole(v_sums sums) { return vaddq_s32(vshlq_n_s32(sums.high, 7), sums.low); }
#else
typedef struct vi8 {
    int16x8_t even, odd;
} vi8;
typedef struct v_sums {
    int32x4_t first, second; /* of the first two keys, of the other two */
} v_sums;

static inline int16x8_t int8_broadcast(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return vreinterpretq_s16_s32(vdupq_n_s32(word));
}

static inline vi8 v_i8(vf words) {
    const int16x8_t w = vreinterpretq_s16_f32(words);
    return (vi8){vshrq_n_s16(vshlq_n_s16(w, 8), 8), vshrq_n_s16(w, 8)};
}
static inline v_sums v_no_sums(void) { return (v_sums){vdupq_n_s32(0), vdupq_n_s32(0)}; }
static inline v_sums int8_add(v_sums sums, vi8 k, int16x8_t even, int16x8_t odd) {
    sums.first = vmlal_s16(sums.first, vget_low_s16(k.even), vget_low_s16(even));
    sums.second = vmlal_high_s16(sums.second, k.even, even);
    sums.first = vmlal_s16(sums.first, vget_low_s16(k.odd), vget_low_s16(odd));
    sums.second = vmlal_high_s16(sums.second, k.odd, odd);
    return sums;
}
static inline v_sums v_sums_add(v_sums sums, vi8 k, const fv_i8_word *q) {
    return int8_add(sums, k, int8_broadcast(q->even), int8_broadcast(q->odd));
}
static inline int32x4_t v_sums_whole(v_sums sums) { return vpaddq_s32(sums.first, sums.second); }
#endif

static inline vf v_sums_float(v_sums sums, int32_t total) {
    (void)total;
    return vcvtq_f32_s32(v_sums_whole(sums));
}

static inline int32_t v_top(vf a) { return vmaxvq_s32(vreinterpretq_s32_f32(a)); }

typedef int32x4_t v_whole;
static inline v_whole v_nearest(vf a) { return vcvtnq_s32_f32(a); }
static inline v_whole v_whole_zero(void) { return vdupq_n_s32(0); }
static inline v_whole v_whole_add(v_whole a, v_whole b) { return vaddq_s32(a, b); }
static inline int32_t v_whole_sum(v_whole a) { return vaddvq_s32(a); }

static inline v_whole v_whole_high(v_whole a) { return vshrq_n_s32(vaddq_s32(a, vdupq_n_s32(64)), 7); }
static inline v_whole v_whole_low(v_whole a, v_whole high) { return vsubq_s32(a, vshlq_n_s32(high, 7)); }
static inline void v_store_i8(void *to, v_whole a) {
    const int16x4_t halves = vmovn_s32(a);
    vst1_lane_s32(to, vreinterpret_s32_s8(vmovn_s16(vcombine_s16(halves, halves))), 0);
}
static inline void v_store_i16(void *to, v_whole a) {
    const int16x4_t halves = vmovn_s32(a);
    vst1_s16(to, vuzp1_s16(halves, vext_s16(halves, halves, 1)));
}

#endif
