/* copy on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_copy_f32_1x1_scalar
#include "body/copy_f32.h"
