/* softmax on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_SIDE 2

#define FV_NAME fv_softmax_f32_1x16_avx512
#include "body/softmax_f32.h"
