/* finish on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_finish_f32_1x4_neon
#include "body/finish_f32.h"
