/* dot on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_dot_f32_8x16_neon
#define FV_ELEMENT float
#include "body/dot.h"
