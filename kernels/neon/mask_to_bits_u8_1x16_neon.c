/* bits on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_mask_to_bits_u8_1x16_neon
#include "body/mask_to_bits_u8.h"
