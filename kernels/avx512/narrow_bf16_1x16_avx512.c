/* narrow on avx512: the body with this tier's vocabulary. */
#include "simd/half_avx512.h"

#define FV_NAME fv_narrow_bf16_1x16_avx512
#define FV_NARROW v_narrow_bf16
#define FV_NARROW_N v_narrow_bf16_n
#include "body/narrow.h"
