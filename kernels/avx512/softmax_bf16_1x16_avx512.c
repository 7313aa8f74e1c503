/* softmax on avx512 with p rounded to bfloat16. */
#include "simd/half_avx512.h"

#define FV_SIDE 2
#define FV_ROUND_P
#define FV_NAME fv_softmax_bf16_1x16_avx512
#include "body/softmax_f32.h"
