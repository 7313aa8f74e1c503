/* exp on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_SIDE 4
#define FV_NAME fv_exp_f32_1x4_neon
#include "body/exp_f32.h"
