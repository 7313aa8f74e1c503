/* fovea_convert (fovea/arrays.h). */
#include "arrays/arrays.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <string.h>

static fovea_status type_check(const char *name, fovea_dtype dtype) {
    return fv_type_of(dtype) != FV_TYPE_COUNT
               ? FOVEA_OK
               : fv_dtype_refuse(name, dtype, "fovea_convert takes FOVEA_DTYPE_F32, _BF16 and _F16");
}

fovea_status fovea_convert(int64_t n, const void *from, fovea_dtype from_dtype, void *to, fovea_dtype to_dtype) {
    fovea_status status = type_check("from_dtype", from_dtype);
    if (status == FOVEA_OK)
        status = type_check("to_dtype", to_dtype);
    if (status != FOVEA_OK)
        return status;
    const fv_array in = {"from", from, fv_dtype_size(from_dtype)}, out = {"to", to, fv_dtype_size(to_dtype)};
    const fovea_context *ctx;
    status = fv_arrays_check(n, &in, &out, from_dtype == to_dtype, &ctx);
    if (status != FOVEA_OK || n == 0)
        return status;
    const fv_type narrow = fv_type_of(to_dtype), wide = fv_type_of(from_dtype);
    if (from_dtype == to_dtype)
        memmove(to, from, (size_t)(n * in.size));
    else if (from_dtype == FOVEA_DTYPE_F32)
        fv_kernel_best(FV_OP_narrow, narrow, ctx->target)->run.narrow_bf16(1, n, from, n, to, n);
    else if (to_dtype == FOVEA_DTYPE_F32)
        fv_kernel_best(FV_OP_widen, wide, ctx->target)->run.widen_bf16(1, n, from, n, to, n);
    else
        for (int64_t at = 0, count; at < n; at += count) {
            float floats[512];
            count = fv_min(n - at, 512);
            fv_kernel_best(FV_OP_widen, wide, ctx->target)
                ->run.widen_bf16(1, count, (const uint16_t *)from + at, count, floats, count);
            fv_kernel_best(FV_OP_narrow, narrow, ctx->target)
                ->run.narrow_bf16(1, count, floats, count, (uint16_t *)to + at, count);
        }
    return FOVEA_OK;
}
