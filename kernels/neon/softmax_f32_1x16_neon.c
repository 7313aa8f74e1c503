/* softmax on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_SIDE 4
#define FV_NAME fv_softmax_f32_1x16_neon
#include "body/softmax_f32.h"
