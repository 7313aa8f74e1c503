/* softmax on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_SIDE 16
#define FV_NAME fv_softmax_f32_1x16_scalar
#include "body/softmax_f32.h"
