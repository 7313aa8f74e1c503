/* SLEEF's exp of 1.0 ulp over an array, as someone would call it who has an AVX2 CPU; see sleef_exp.h. */
#include <immintrin.h>
#include <sleef.h>

#include "sleef_exp.h"

void bench_sleef_exp_avx2(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, Sleef_finz_expf8_u10avx2(_mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        y[i] = Sleef_finz_expf1_u10purecfma(x[i]);
}
