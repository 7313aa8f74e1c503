#include "simd/simd_scalar.h"

#define PEAK_NAME peak_sum_scalar
#define PEAK_COUNT 16
#include "peak_body.h"
