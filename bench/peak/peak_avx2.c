#include "simd/simd_avx2.h"

#define PEAK_NAME peak_sum_avx2
#define PEAK_COUNT 12
#include "peak_body.h"
