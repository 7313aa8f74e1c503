/* dot of int8 on avx512: the body with this tier's vocabulary. */
#include "simd/int8_avx512.h"

#define FV_NAME fv_dot_i8_8x16_avx512
#include "body/dot_i8.h"
