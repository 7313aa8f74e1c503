/* gemm_widen of bfloat16, in pairs, on avx512. */
#define FV_MR 6
#define FV_NR 64
#define FV_NAME fv_multiply_f32_bf16x2_6x64_avx512
#define FV_PAIRS
#include "simd/half_avx512.h"

#include "body/gemm_widen.h"
