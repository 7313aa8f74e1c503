/* softcap on neon: the body with this tier's vocabulary. */
#include "simd/simd_neon.h"

#define FV_SIDE 4
#define FV_NAME fv_softcap_f32_1x4_neon
#include "body/softcap_f32.h"
