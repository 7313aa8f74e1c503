/* gemm_masked on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NR 16
#define FV_NAME fv_multiply_f32_masked_f32_1x16_neon
#include "body/gemm_masked_f32.h"
