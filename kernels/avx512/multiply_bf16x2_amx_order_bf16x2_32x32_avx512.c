/* The product of bfloat16 in amx order on avx512 with AMX-BF16. */
#include "simd/simd_avx512.h"

#include "amx/tiles_amx.h"

#define FV_NAME fv_multiply_bf16x2_amx_order_bf16x2_32x32_avx512
#define FV_OVERLAPPED fv_softmax_overlapped_amx
#include "amx/multiply_amx_order.h"
