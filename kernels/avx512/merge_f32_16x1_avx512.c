/* merge on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_merge_f32_16x1_avx512
#include "body/merge_f32.h"
