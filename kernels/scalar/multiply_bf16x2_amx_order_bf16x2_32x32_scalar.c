/* The product of bfloat16 in amx order on scalar: the kernel for AMX over emulated tiles, so that its logic is tested
 * on any machine. */
#include "simd/simd_scalar.h"

#include "amx/tiles_emulated.h"

#define FV_NAME fv_multiply_bf16x2_amx_order_bf16x2_32x32_scalar
#define FV_OVERLAPPED fv_softmax_overlapped_emulated
#include "amx/multiply_amx_order.h"
