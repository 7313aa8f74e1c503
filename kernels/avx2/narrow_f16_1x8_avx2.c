/* narrow on avx2: the body with this tier's vocabulary. */
#include "simd/half_avx2.h"

#define FV_NAME fv_narrow_f16_1x8_avx2
#define FV_NARROW v_narrow_f16
#define FV_NARROW_N v_narrow_f16_n
#include "body/narrow.h"
