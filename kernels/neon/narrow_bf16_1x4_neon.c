/* narrow on neon: the body with this tier's vocabulary. */
#include "simd/half_neon.h"

#define FV_NAME fv_narrow_bf16_1x4_neon
#define FV_NARROW v_narrow_bf16
#define FV_NARROW_N v_narrow_bf16_n
#include "body/narrow.h"
