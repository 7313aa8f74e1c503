/* weight_sums on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_weight_sums_f32_1x1_scalar
#include "body/weight_sums_f32.h"
