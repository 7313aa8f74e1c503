/* gemm_masked on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NR 32
#define FV_NAME fv_multiply_f32_masked_f32_1x32_avx2
#include "body/gemm_masked_f32.h"
