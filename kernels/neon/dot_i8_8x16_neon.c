/* dot of int8 on neon: the body with this tier's vocabulary. */
#include "simd/int8_neon.h"

#define FV_NAME fv_dot_i8_8x16_neon
#include "body/dot_i8.h"
