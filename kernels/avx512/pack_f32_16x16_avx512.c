/* pack on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_NAME fv_pack_f32_16x16_avx512
#include "body/pack_f32.h"
