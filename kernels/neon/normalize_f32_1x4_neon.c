/* normalize on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_normalize_f32_1x4_neon
#include "body/normalize_f32.h"
