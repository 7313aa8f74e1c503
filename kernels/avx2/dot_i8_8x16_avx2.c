/* dot of int8 on avx2: the body with this tier's vocabulary. */
#include "simd/int8_avx2.h"

#define FV_NAME fv_dot_i8_8x16_avx2
#include "body/dot_i8.h"
