/* scale on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_scale_f32_1x1_scalar
#include "body/scale_f32.h"
