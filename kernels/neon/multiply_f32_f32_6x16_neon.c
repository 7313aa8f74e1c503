/* gemm on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_MR 6
#define FV_NR 16
#define FV_GEMM_MULTIPLY "neon/gemm_multiply.h"
#define FV_NAME fv_multiply_f32_f32_6x16_neon
#include "body/gemm_f32.h"
