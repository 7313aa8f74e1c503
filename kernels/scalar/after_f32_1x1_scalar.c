/* after on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_after_f32_1x1_scalar
#include "body/after_f32.h"
