/* SLEEF's exp of 1.0 ulp over an array, one float at a time; see sleef_exp.h. */
#include <sleef.h>

#include "sleef_exp.h"

void bench_sleef_exp_scalar(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = Sleef_expf_u10(x[i]);
}
