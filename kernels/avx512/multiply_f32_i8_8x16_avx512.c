/* gemm_thin on avx512: the body with this tier's vocabulary. */
#include "simd/int8_avx512.h"

#define FV_NAME fv_multiply_f32_i8_8x16_avx512
#define FV_ELEMENT int8_t
#define FV_WIDEN v_load_i8
#define FV_MANY_ROWS 4
#include "body/gemm_thin.h"
