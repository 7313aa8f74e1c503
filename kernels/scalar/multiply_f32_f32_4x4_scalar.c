/* gemm on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_MR 4
#define FV_NR 4
#define FV_NAME fv_multiply_f32_f32_4x4_scalar
#include "body/gemm_f32.h"
