/* gemm_widen of float16 on neon. */
#define FV_MR 6
#define FV_NR 16
#define FV_NAME fv_multiply_f32_f16_6x16_neon
#include "simd/half_neon.h"

#include "body/gemm_widen.h"
