/* gemm_widen of float16 on avx512. */
#define FV_MR 6
#define FV_NR 64
#define FV_NAME fv_multiply_f32_f16_6x64_avx512
#include "simd/half_avx512.h"

#include "body/gemm_widen.h"
