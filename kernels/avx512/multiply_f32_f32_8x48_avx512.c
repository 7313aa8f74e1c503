/* gemm on avx512: tiles in assembly, or the body with this tier's vocabulary. */
#define FV_MR 8
#define FV_NR 48
#define FV_NAME fv_multiply_f32_f32_8x48_avx512
#include "avx512/gemm_f32.h"
