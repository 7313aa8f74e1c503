/* softcap on avx2: the body with this tier's vocabulary. */
#include "simd/simd_avx2.h"

#define FV_SIDE 4
#define FV_NAME fv_softcap_f32_1x8_avx2
#include "body/softcap_f32.h"
