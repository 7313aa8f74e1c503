/* dot on scalar. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_dot_f32_8x16_scalar
#define FV_ELEMENT float
#define FV_WIDEN v_load
#include "scalar/dot.h"
