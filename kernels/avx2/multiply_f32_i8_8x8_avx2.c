/* gemm_thin on avx2: the body with this tier's vocabulary. */
#include "simd/int8_avx2.h"

#define FV_NAME fv_multiply_f32_i8_8x8_avx2
#define FV_ELEMENT int8_t
#define FV_WIDEN v_load_i8
#include "body/gemm_thin.h"
