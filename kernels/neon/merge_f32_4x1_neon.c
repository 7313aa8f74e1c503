/* merge on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_merge_f32_4x1_neon
#include "body/merge_f32.h"
