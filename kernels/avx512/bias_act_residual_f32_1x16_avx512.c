/* bias_act_residual on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_bias_act_residual_f32_1x16_avx512
#include "body/bias_act_residual_f32.h"
