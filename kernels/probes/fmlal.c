/* FMLAL (probes.h): elements are in the order of outputs, so the first and the second of pairs are taken apart
 * before. */
#include "probes/probes.h"

#include <arm_neon.h>

void fv_probe_fmlal(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j += 4) {
        float32x4_t acc = vld1q_f32(c + j);
        for (int64_t t = 0; t < pairs; t++) {
            const uint32x4_t x = vdupq_n_u32(a[t]), w = vld1q_u32(b + t * FV_PROBE_OUTPUTS + j);
            const float16x4_t x0 = vreinterpret_f16_u16(vmovn_u32(x)), x1 = vreinterpret_f16_u16(vshrn_n_u32(x, 16)),
                              w0 = vreinterpret_f16_u16(vmovn_u32(w)), w1 = vreinterpret_f16_u16(vshrn_n_u32(w, 16));
            acc = vfmlalq_low_f16(acc, vcombine_f16(x0, x0), vcombine_f16(w0, w0));
            acc = vfmlalq_low_f16(acc, vcombine_f16(x1, x1), vcombine_f16(w1, w1));
        }
        vst1q_u32(y + j, vreinterpretq_u32_f32(acc));
    }
}
