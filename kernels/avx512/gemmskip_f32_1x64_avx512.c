/* gemmskip on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NR 64
#define FV_NAME fv_gemmskip_f32_1x64_avx512
#include "body/gemmskip_f32.h"
