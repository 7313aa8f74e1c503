/* from_pairs on avx2. */
#define FV_NAME fv_from_pairs_bf16_1x8_avx2
#include "simd/half_avx2.h"

#include "body/from_pairs.h"
