/* accumulate on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_accumulate_f32_1x8_avx2
#include "body/accumulate_f32.h"
