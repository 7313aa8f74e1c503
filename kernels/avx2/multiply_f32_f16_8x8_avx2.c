/* gemm_thin on avx2: the body with this tier's vocabulary. */
#include "simd/half_avx2.h"

#define FV_NAME fv_multiply_f32_f16_8x8_avx2
#define FV_ELEMENT uint16_t
#define FV_WIDEN v_load_f16
#include "body/gemm_thin.h"
