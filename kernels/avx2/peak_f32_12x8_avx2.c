/* peak on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_MR 12
#define FV_NAME fv_peak_f32_12x8_avx2
#include "body/peak_f32.h"
