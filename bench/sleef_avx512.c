/* SLEEF's exp of 1.0 ulp over an array, as someone would call it who has an AVX-512 CPU; see sleef_exp.h. */
#include <immintrin.h>
#include <sleef.h>

#include "sleef_exp.h"

void bench_sleef_exp_avx512(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, Sleef_finz_expf16_u10avx512f(_mm512_loadu_ps(x + i)));
    for (; i < n; i++)
        y[i] = Sleef_finz_expf1_u10purecfma(x[i]);
}
