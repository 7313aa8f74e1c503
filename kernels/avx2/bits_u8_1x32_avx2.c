/* bits on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_bits_u8_1x32_avx2
#include "body/bits_u8.h"
