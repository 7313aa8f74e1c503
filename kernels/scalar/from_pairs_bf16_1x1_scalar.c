/* from_pairs on scalar. */
#define FV_NAME fv_from_pairs_bf16_1x1_scalar
#include "simd/simd_scalar.h"

#include "simd/half_scalar.h"

#include "body/from_pairs.h"
