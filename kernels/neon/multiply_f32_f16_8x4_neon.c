/* gemm_thin on neon: the body with this tier's vocabulary. */
#include "simd/half_neon.h"

#define FV_NAME fv_multiply_f32_f16_8x4_neon
#define FV_ELEMENT uint16_t
#define FV_WIDEN v_load_f16
#include "body/gemm_thin.h"
