/* weights on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_weights_f32_1x4_neon
#include "body/weights_f32.h"
