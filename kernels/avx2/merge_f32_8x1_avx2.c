/* merge on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_merge_f32_8x1_avx2
#include "body/merge_f32.h"
