/* dot on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_dot_f32_8x16_avx2
#define FV_ELEMENT float
#include "body/dot.h"
