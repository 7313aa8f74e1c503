/* gemm_blocks on avx512: the body of gemm with blocks for its inner loop. */
#include "simd/simd_avx512.h"

#define FV_MR 6
#define FV_NR 32
#define FV_GEMM_MULTIPLY "body/gemm_blocks.h"
#define FV_NAME fv_multiply_f32_amx_order_f32_6x32_avx512
#include "body/gemm_f32.h"
