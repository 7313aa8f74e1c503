/* softcap on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_SIDE 16
#define FV_NAME fv_softcap_f32_1x1_scalar
#include "body/softcap_f32.h"
