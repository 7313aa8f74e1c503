/* gemm on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_MR 4
#define FV_NR 24
#define FV_NAME fv_multiply_f32_f32_4x24_avx2
#include "body/gemm_f32.h"
