/* normalize on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_normalize_f32_1x8_avx2
#include "body/normalize_f32.h"
