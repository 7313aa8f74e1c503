/* gemm_masked on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NR 64
#define FV_NAME fv_multiply_f32_masked_f32_1x64_avx512
#include "body/gemm_masked_f32.h"
