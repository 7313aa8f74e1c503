/* gemm_thin on avx512: the body with this tier's vocabulary. */
#include "simd/half_avx512.h"

#define FV_NAME fv_multiply_f32_bf16_8x16_avx512
#define FV_ELEMENT uint16_t
#define FV_WIDEN v_load_bf16
#define FV_PAIR v_pair_bf16
#include "body/gemm_thin.h"
