/* finish on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_finish_f32_1x1_scalar
#include "body/finish_f32.h"
