/* normalize on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_normalize_f32_1x16_avx512
#include "body/normalize_f32.h"
