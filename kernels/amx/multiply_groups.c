/* Products with weights in groups on avx512 with AMX-INT8. */
#include "simd/integers_avx512.h"

#include "amx/tiles_amx.h"

#include "amx/multiply_groups.h"
