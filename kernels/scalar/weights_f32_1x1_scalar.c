/* weights on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_weights_f32_1x1_scalar
#include "body/weights_f32.h"
