/* widen on avx2: the body with this tier's vocabulary. */
#include "simd/half_avx2.h"

#define FV_NAME fv_widen_f16_1x8_avx2
#define FV_WIDEN v_widen_f16
#define FV_WIDEN_N v_widen_f16_n
#include "body/widen.h"
