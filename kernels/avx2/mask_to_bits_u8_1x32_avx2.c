/* bits on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_mask_to_bits_u8_1x32_avx2
#include "body/mask_to_bits_u8.h"
