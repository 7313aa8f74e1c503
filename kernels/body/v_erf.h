/* v_erf: the error function, for the exact GELU.
 *
 * Below V_ERF_SPLIT erf(x) = x + x p(x^2); from there on 1 - exp(q(|x|)) with the sign of x, where q is log(erfc),
 * smooth and never positive, so that the one exp of v_exp.h serves. From 4 on the result is 1. Both are computed and
 * one is selected: a vector has lanes of either kind. A NaN goes through. The constants come from v_erf.py in this
 * folder.
 *
 * Why not SLEEF's: its float form takes four times as long as this, and of its scalar forms the one with the same bits
 * is compiled for FMA3 and does not run on every CPU that the portable tier has to run on. At most 2 ulp from SLEEF's
 * double form: proved for every float by test_activation.c --exhaustive. */
#ifndef FV_V_ERF_H
#define FV_V_ERF_H

#include "v_exp.h"

#define V_ERF_SPLIT 0.921875f

/* c0 + c1 x + ... by Horner, the highest coefficient first in c. */
static inline __attribute__((always_inline)) vf v_polynomial(vf x, const float *c, const int n) {
    vf y = v_set1(c[0]);
    for (int i = 1; i < n; i++)
        y = v_fma(y, x, v_set1(c[i]));
    return y;
}

static inline vf v_erf(vf x) {
    static const float p[] = {0x1.5d556cp-14f, -0x1.aa4cc6p-11f, 0x1.54c580p-8f, -0x1.b80db0p-6f,
                              0x1.ce2df2p-4f,  -0x1.812742p-2f,  0x1.06eba8p-3f};
    static const float q[] = {-0x1.66bbe4p-16f, 0x1.caebfap-12f, -0x1.125564p-8f, 0x1.9c2d70p-6f,
                              -0x1.bbbf1cp-4f,  -0x1.443f90p-1f, -0x1.212970p+0f, 0x1.784712p-13f};
    const vf zero = v_set1(0.0f), a = v_max(x, v_sub(zero, x));
    const vf near = v_fma(v_polynomial(v_mul(x, x), p, sizeof p / sizeof p[0]), x, x);
    const vf bounded = v_select(v_not_lt(v_set1(4.0f), a), a, v_set1(4.0f)); /* a NaN stays */
    const vf rest = v_sub(v_set1(1.0f), v_exp(v_polynomial(bounded, q, sizeof q / sizeof q[0])));
    return v_select(v_not_lt(a, v_set1(V_ERF_SPLIT)), v_select(v_not_lt(x, zero), rest, v_sub(zero, rest)), near);
}

#endif
