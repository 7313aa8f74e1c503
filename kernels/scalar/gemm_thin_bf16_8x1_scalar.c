/* gemm_thin on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#define FV_NAME fv_gemm_thin_bf16_8x1_scalar
#define FV_WIDEN v_load_bf16
#include "body/gemm_thin.h"
