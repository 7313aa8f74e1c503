/* gemm on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_MR 12
#define FV_NR 32
#define FV_NAME fv_gemm_f32_12x32_avx512
#define FV_GEMM_ASSEMBLY "avx512/gemm_assembly.h"
#include "body/gemm_f32.h"
