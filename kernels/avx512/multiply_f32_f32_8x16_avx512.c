/* gemm_thin on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_multiply_f32_f32_8x16_avx512
#define FV_ELEMENT float
#define FV_WIDEN v_load
#include "body/gemm_thin.h"
