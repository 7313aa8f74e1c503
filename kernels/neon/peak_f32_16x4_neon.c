/* peak on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_MR 16
#define FV_NAME fv_peak_f32_16x4_neon
#include "body/peak_f32.h"
