/* gemmskip on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NR 16
#define FV_NAME fv_gemmskip_f32_1x16_neon
#include "body/gemmskip_f32.h"
