/* peak on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_MR 12
#define FV_NAME fv_peak_f32_12x16_avx512
#include "body/peak_f32.h"
