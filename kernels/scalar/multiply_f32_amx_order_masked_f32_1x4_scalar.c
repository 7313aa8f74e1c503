/* gemm_blocks_masked on scalar, the only tier that has one. */
#include "simd/simd_scalar.h"

#define FV_NR 4
#define FV_SKIP_BLOCKS
#define FV_NAME fv_multiply_f32_amx_order_masked_f32_1x4_scalar
#include "body/gemm_masked_f32.h"
