/* widen on neon: the body with this tier's vocabulary. */
#include "simd/half_neon.h"

#define FV_NAME fv_widen_bf16_1x4_neon
#define FV_WIDEN v_widen_bf16
#define FV_WIDEN_N v_widen_bf16_n
#include "body/widen.h"
