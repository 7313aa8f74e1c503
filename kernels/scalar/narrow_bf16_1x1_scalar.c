/* narrow on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"
#include "simd/half_scalar.h"

#define FV_NAME fv_narrow_bf16_1x1_scalar
#define FV_NARROW v_narrow_bf16
#define FV_NARROW_N v_narrow_bf16_n
#include "body/narrow.h"
