/* dot of int8 on avx512 with AVX512-VNNI: the body with this tier's vocabulary. */
#define FV_I8_PLANES
#include "simd/int8_avx512.h"

#define FV_NAME fv_dot_i8_8x32_avx512
#include "body/dot_i8.h"
