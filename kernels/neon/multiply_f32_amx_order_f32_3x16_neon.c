/* gemm_blocks on neon: the body of gemm with blocks for its inner loop. */
#include "simd/simd_neon.h"

#define FV_MR 3
#define FV_NR 16
#define FV_GEMM_MULTIPLY "body/gemm_blocks.h"
#define FV_NAME fv_multiply_f32_amx_order_f32_3x16_neon
#include "body/gemm_f32.h"
