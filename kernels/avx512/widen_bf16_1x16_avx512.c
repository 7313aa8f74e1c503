/* widen on avx512: the body with this tier's vocabulary. */
#include "simd/half_avx512.h"

#define FV_NAME fv_widen_bf16_1x16_avx512
#define FV_WIDEN v_widen_bf16
#define FV_WIDEN_N v_widen_bf16_n
#include "body/widen.h"
