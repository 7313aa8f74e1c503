/* SLEEF's exp of 1.0 ulp over an array, as someone would call it who has a 64-bit Arm CPU; see sleef_exp.h. */
#include <arm_neon.h>
#include <sleef.h>

#include "sleef_exp.h"

void bench_sleef_exp_neon(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, Sleef_finz_expf4_u10advsimd(vld1q_f32(x + i)));
    for (; i < n; i++)
        y[i] = Sleef_finz_expf1_u10purecfma(x[i]);
}
