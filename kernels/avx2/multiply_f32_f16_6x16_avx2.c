/* gemm_widen of float16 on avx2. */
#define FV_MR 6
#define FV_NR 16
#define FV_NAME fv_multiply_f32_f16_6x16_avx2
#include "simd/half_avx2.h"

#include "body/gemm_widen.h"
