/* bias_act_residual on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_bias_act_residual_f32_1x1_scalar
#include "body/bias_act_residual_f32.h"
