/* pack on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_NAME fv_pack_f32_8x8_avx2
#include "body/pack_f32.h"
