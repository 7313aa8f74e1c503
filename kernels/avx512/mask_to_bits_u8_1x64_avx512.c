/* bits on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_mask_to_bits_u8_1x64_avx512
#include "body/mask_to_bits_u8.h"
