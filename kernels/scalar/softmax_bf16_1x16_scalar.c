/* softmax on scalar with p rounded to bfloat16. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#define FV_SIDE 16
#define FV_ROUND_P
#define FV_NAME fv_softmax_bf16_1x16_scalar
#include "body/softmax_f32.h"
