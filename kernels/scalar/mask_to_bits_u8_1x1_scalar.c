/* bits on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_NAME fv_mask_to_bits_u8_1x1_scalar
#include "body/mask_to_bits_u8.h"
