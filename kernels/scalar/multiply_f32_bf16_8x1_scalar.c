/* gemm_thin on scalar. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#define FV_NAME fv_multiply_f32_bf16_8x1_scalar
#define FV_ELEMENT uint16_t
#define FV_WIDEN v_load_bf16
#include "scalar/gemm_thin.h"
