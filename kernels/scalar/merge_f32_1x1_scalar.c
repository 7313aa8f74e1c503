/* merge on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_merge_f32_1x1_scalar
#include "body/merge_f32.h"
