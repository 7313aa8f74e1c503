/* softcap on avx512: the body with this tier's vocabulary. */
#include "simd/simd_avx512.h"

#define FV_SIDE 4
#define FV_NAME fv_softcap_f32_1x16_avx512
#include "body/softcap_f32.h"
