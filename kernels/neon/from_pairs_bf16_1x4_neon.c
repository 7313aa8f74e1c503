/* from_pairs on neon. */
#define FV_NAME fv_from_pairs_bf16_1x4_neon
#include "simd/half_neon.h"

#include "body/from_pairs.h"
