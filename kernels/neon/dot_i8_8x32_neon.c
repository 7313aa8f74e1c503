/* dot of int8 on neon with dotprod: the body with this tier's vocabulary. */
#define FV_I8_PLANES
#include "simd/int8_neon.h"

#define FV_NAME fv_dot_i8_8x32_neon
#include "body/dot_i8.h"
