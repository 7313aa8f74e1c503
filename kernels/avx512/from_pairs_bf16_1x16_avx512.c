/* from_pairs on avx512. */
#define FV_NAME fv_from_pairs_bf16_1x16_avx512
#include "simd/half_avx512.h"

#include "body/from_pairs.h"
