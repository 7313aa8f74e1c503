/* dot on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#define FV_NAME fv_dot_f16_8x16_scalar
#define FV_ELEMENT uint16_t
#define FV_PAIR v_pair_f16
#include "body/dot.h"
