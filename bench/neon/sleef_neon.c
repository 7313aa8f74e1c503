#include "simd_neon.h"

#define SLEEF_NAME bench_sleef_exp_neon
#define SLEEF_EXP Sleef_finz_expf4_u10advsimd
#include "sleef_exp_body.h"
