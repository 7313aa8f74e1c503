#include "simd_avx2.h"

#define SLEEF_NAME bench_sleef_exp_avx2
#define SLEEF_EXP Sleef_finz_expf8_u10avx2
#include "sleef_exp_body.h"
