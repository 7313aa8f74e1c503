/* gemm_blocks on scalar: the body of gemm with blocks for its inner loop. */
#include "simd/simd_scalar.h"

#define FV_MR 2
#define FV_NR 2
#define FV_GEMM_MULTIPLY "body/gemm_blocks.h"
#define FV_NAME fv_multiply_f32_amx_order_f32_2x2_scalar
#include "body/gemm_f32.h"
