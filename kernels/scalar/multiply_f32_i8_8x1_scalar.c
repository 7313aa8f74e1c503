/* gemm_thin on scalar. */
#include "simd/simd_scalar.h"

#include "simd/int8_scalar.h"

#define FV_NAME fv_multiply_f32_i8_8x1_scalar
#define FV_ELEMENT int8_t
#define FV_WIDEN v_load_i8
#include "scalar/gemm_thin.h"
