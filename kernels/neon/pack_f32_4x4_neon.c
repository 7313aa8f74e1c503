/* pack on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_NAME fv_pack_f32_4x4_neon
#include "body/pack_f32.h"
