/* dot on avx512: the body with this tier's vocabulary. */
#include "simd/half_avx512.h"

#define FV_NAME fv_dot_f16_8x32_avx512
#define FV_ELEMENT uint16_t
#define FV_PAIR v_pair_scaled_f16
#define FV_GUARDED fv_dot_f16_8x16_avx512
#include "body/dot.h"
