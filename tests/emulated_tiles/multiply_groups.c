/* Products with weights in groups by AMX, over emulated tiles: in place of the library's. */
#include "simd/integers_avx512.h"

#include "amx/tiles_emulated.h"

#include "amx/multiply_groups.h"
