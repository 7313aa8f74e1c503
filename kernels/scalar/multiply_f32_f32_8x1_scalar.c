/* gemm_thin on scalar: the definition. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_multiply_f32_f32_8x1_scalar
#define FV_ELEMENT float
#define FV_WIDEN v_load
#include "scalar/gemm_thin.h"
