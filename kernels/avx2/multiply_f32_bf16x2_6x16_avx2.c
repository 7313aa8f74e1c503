/* gemm_widen of bfloat16, in pairs, on avx2. */
#define FV_MR 6
#define FV_NR 16
#define FV_NAME fv_multiply_f32_bf16x2_6x16_avx2
#define FV_PAIRS
#include "simd/half_avx2.h"

#include "body/gemm_widen.h"
