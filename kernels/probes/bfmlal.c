/* BFMLALB and BFMLALT (probes.h): the elements with even and with odd numbers. */
#include "probes/probes.h"

#include <arm_neon.h>

void fv_probe_bfmlal(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j += 4) {
        float32x4_t acc = vld1q_f32(c + j);
        for (int64_t t = 0; t < pairs; t++) {
            const bfloat16x8_t x = vreinterpretq_bf16_u32(vdupq_n_u32(a[t])),
                               w = vreinterpretq_bf16_u32(vld1q_u32(b + t * FV_PROBE_OUTPUTS + j));
            acc = vbfmlaltq_f32(vbfmlalbq_f32(acc, x, w), x, w);
        }
        vst1q_u32(y + j, vreinterpretq_u32_f32(acc));
    }
}
