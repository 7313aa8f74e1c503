/* dot on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_dot_f32_8x16_avx512
#define FV_ELEMENT float
#include "body/dot.h"
