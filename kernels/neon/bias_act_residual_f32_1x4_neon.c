/* bias_act_residual on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_bias_act_residual_f32_1x4_neon
#include "body/bias_act_residual_f32.h"
