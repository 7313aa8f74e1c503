/* widen on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"
#include "simd/half_scalar.h"

#define FV_NAME fv_widen_f16_1x1_scalar
#define FV_WIDEN v_widen_f16
#define FV_WIDEN_N v_widen_f16_n
#include "body/widen.h"
