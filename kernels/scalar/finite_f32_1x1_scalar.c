/* finite on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_finite_f32_1x1_scalar
#include "body/finite_f32.h"
