/* accumulate on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_accumulate_f32_1x1_scalar
#include "body/accumulate_f32.h"
