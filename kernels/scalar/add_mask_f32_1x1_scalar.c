/* bias on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_add_mask_f32_1x1_scalar
#include "body/add_mask_f32.h"
