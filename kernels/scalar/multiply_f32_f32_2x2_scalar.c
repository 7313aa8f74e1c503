/* gemm on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_MR 2
#define FV_NR 2
#define FV_NAME fv_multiply_f32_f32_2x2_scalar
#include "body/gemm_f32.h"
