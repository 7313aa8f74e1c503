/* SLEEF's exp over an array, which the library's own is compared with: y[i] = exp(x[i]), at most 1.0 ulp from exact.
 * One function per tier, each in a file built with the flags of its tier. */
#ifndef BENCH_SLEEF_EXP_H
#define BENCH_SLEEF_EXP_H

#include <stdint.h>

void bench_sleef_exp_scalar(int64_t n, const float *x, float *y);
#ifdef FV_HAVE_X86
void bench_sleef_exp_avx2(int64_t n, const float *x, float *y);
void bench_sleef_exp_avx512(int64_t n, const float *x, float *y);
#endif
#ifdef FV_HAVE_ARM64
void bench_sleef_exp_neon(int64_t n, const float *x, float *y);
#endif

#endif
