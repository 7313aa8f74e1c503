#include "simd/simd_neon.h"

#define PEAK_NAME peak_sum_neon
#define PEAK_COUNT 16
#include "peak_body.h"
