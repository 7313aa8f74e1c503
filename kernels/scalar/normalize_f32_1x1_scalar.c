/* normalize on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_normalize_f32_1x1_scalar
#include "body/normalize_f32.h"
