/* SLEEF's exp of 1.0 ulp over an array, as someone would call it; see sleef_exp.h. A file includes the vocabulary
 * header of its tier, defines SLEEF_NAME and SLEEF_EXP, and then includes this. */
#include <sleef.h>

#include "sleef_exp.h"

void SLEEF_NAME(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        v_store(y + i, SLEEF_EXP(v_load(x + i)));
    for (; i < n; i++)
        y[i] = Sleef_finz_expf1_u10purecfma(x[i]);
}
