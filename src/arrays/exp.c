/* fovea_exp_f32 (fovea/arrays.h). */
#include "arrays/arrays.h"
#include "dispatch/dispatch.h"

fovea_status fovea_exp_f32(int64_t n, const float *x, float *y) {
    const fv_array from = {"x", x, sizeof *x}, to = {"y", y, sizeof *y};
    const fovea_context *ctx;
    const fovea_status status = fv_arrays_check(n, &from, &to, true, &ctx);
    if (status == FOVEA_OK && n > 0)
        fv_kernel_best(FV_OP_exp, FV_TYPE_f32, ctx->target)->run.exp_f32(n, x, y);
    return status;
}
