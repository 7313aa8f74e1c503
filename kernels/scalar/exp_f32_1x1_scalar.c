/* exp on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_SIDE 1
#define FV_NAME fv_exp_f32_1x1_scalar
#include "body/exp_f32.h"
