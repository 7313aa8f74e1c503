/* dot on neon: the body with this tier's vocabulary. */
#include "simd/half_neon.h"

#define FV_NAME fv_dot_bf16_8x16_neon
#define FV_ELEMENT uint16_t
#define FV_PAIR v_pair_bf16
#include "body/dot.h"
