#include "simd/simd_avx512.h"

#define PEAK_NAME peak_sum_avx512
#define PEAK_COUNT 12
#include "peak_body.h"
