#include "simd_avx512.h"

#define SLEEF_NAME bench_sleef_exp_avx512
#define SLEEF_EXP Sleef_finz_expf16_u10avx512f
#include "sleef_exp_body.h"
