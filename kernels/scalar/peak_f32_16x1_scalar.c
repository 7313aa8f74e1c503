/* peak on scalar: the body with this tier's vocabulary. */
#include "simd/simd_scalar.h"

#define FV_MR 16
#define FV_NAME fv_peak_f32_16x1_scalar
#include "body/peak_f32.h"
