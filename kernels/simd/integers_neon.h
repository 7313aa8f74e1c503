/* Integers in words of 4 bytes for NEON, 4 words: those of the words of integers_avx2.h that expand and unpack use. */
#ifndef FV_INTEGERS_NEON_H
#define FV_INTEGERS_NEON_H

#include "simd/simd_neon.h"

typedef uint32x4_t vw;

static inline vw w_load(const uint32_t *p) { return vld1q_u32(p); }
static inline void w_store(uint32_t *p, vw a) { vst1q_u32(p, a); }
static inline vw w_set1(uint32_t a) { return vdupq_n_u32(a); }
static inline vw w_sub(vw a, vw b) { return vsubq_u32(a, b); }
static inline vw w_sub_8(vw a, vw b) {
    return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
}
static inline vw w_and(vw a, vw b) { return vandq_u32(a, b); }
static inline vw w_or(vw a, vw b) { return vorrq_u32(a, b); }
static inline vw w_left(vw a, int bits) { return vshlq_u32(a, vdupq_n_s32(bits)); }
static inline vw w_right(vw a, int bits) { return vshlq_u32(a, vdupq_n_s32(-bits)); }
static inline vw w_bytes(vw a) { return vmulq_n_u32(vandq_u32(a, vdupq_n_u32(0xff)), 0x01010101); }
static inline vw w_table(const int8_t *p) { return vreinterpretq_u32_s8(vld1q_s8(p)); }
static inline vw w_lookup(vw table, vw a) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(table), vreinterpretq_u8_u32(a)));
}
static inline vf w_as_float(vw a) { return vreinterpretq_f32_u32(a); }
static inline vw w_byte(vw a, const int byte) {
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(w_left(a, 24 - 8 * byte)), 24));
}
static inline vf w_float(vw a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
static inline vw w_of_float(vf a) { return vreinterpretq_u32_s32(vcvtq_s32_f32(a)); }

#endif
