/* after on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_after_f32_1x16_avx512
#include "body/after_f32.h"
