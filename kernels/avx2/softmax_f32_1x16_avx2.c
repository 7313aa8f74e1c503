/* softmax on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_SIDE 2
#define FV_NAME fv_softmax_f32_1x16_avx2
#include "body/softmax_f32.h"
