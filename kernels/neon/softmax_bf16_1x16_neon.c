/* softmax on neon with p rounded to bfloat16. */
#include "simd/half_neon.h"

#define FV_SIDE 4
#define FV_ROUND_P
#define FV_NAME fv_softmax_bf16_1x16_neon
#include "body/softmax_f32.h"
