/* dot on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_dot_f32_8x16_scalar
#define FV_ELEMENT float
#include "body/dot.h"
