/* gemm on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_MR 8
#define FV_NR 12
#define FV_GEMM_MULTIPLY "neon/gemm_multiply.h"
#define FV_NAME fv_multiply_f32_f32_8x12_neon
#include "body/gemm_f32.h"
