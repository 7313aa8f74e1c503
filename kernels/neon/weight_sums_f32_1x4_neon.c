/* weight_sums on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_weight_sums_f32_1x4_neon
#include "body/weight_sums_f32.h"
