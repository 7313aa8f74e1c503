/* fovea_exp_f32 (fovea/arrays.h). */
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <inttypes.h>

fovea_status fovea_exp_f32(int64_t n, const float *x, float *y) {
    int64_t bytes;
    if (n < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "n %" PRId64 " is negative", n);
    if (n == 0)
        return FOVEA_OK;
    if (!x || !y)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", x ? "y" : "x");
    if (!fv_multiply(n, (int64_t)sizeof *x, &bytes))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "n %" PRId64 ": too large", n);
    const uintptr_t from = (uintptr_t)x, to = (uintptr_t)y;
    const fv_span in = {"x", from, from + (uintptr_t)bytes}, out = {"y", to, to + (uintptr_t)bytes};
    const fovea_context *ctx;
    fovea_status status = x == y ? FOVEA_OK : fv_spans_disjoint(&out, &in);
    if (status == FOVEA_OK)
        status = fv_context_default(&ctx);
    if (status == FOVEA_OK)
        fv_kernel_best(FV_OP_exp, FV_TYPE_f32, ctx->target)->run.exp_f32(n, x, y);
    return status;
}
