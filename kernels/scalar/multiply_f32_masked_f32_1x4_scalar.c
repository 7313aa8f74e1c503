/* gemm_masked on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NR 4
#define FV_NAME fv_multiply_f32_masked_f32_1x4_scalar
#include "body/gemm_masked_f32.h"
