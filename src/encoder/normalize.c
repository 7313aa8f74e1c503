/* fovea_normalize_rows (fovea/encoder.h). */
#include "encoder/encoder.h"

#include <math.h>

typedef struct normalisation {
    fv_view x, y;
} normalisation;

static void rows(const void *arg, int64_t begin, int64_t end) {
    const normalisation *m = arg;
    const int64_t channels = m->x.tensor->shape[3];
    float in[FV_RUN], out[FV_RUN];
    for (int64_t row = begin; row < end; row++) {
        float lanes[FV_LANES] = {0};
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            fv_run_squares(n, fv_view_read(&m->x, row, at, n, in), lanes);
        }
        for (int half = FV_LANES / 2; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                lanes[j] = lanes[j] + lanes[j + half];
        const float root = sqrtf(lanes[0]), length = root < 1e-12F ? 1e-12F : root;
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            fv_run_finish(n, fv_view_read(&m->x, row, at, n, in), 1.0F, length, fv_view_write(&m->y, row, at, out));
            fv_view_written(&m->y, row, at, n, out);
        }
    }
}

fovea_status fovea_normalize_rows(const fovea_context *ctx, const fovea_tensor *x, const fovea_tensor *y) {
    FV_HOLD_EXCEPTIONS();
    fv_span from, to;
    if (!ctx || !x || !y)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : !x ? "x" : "y");
    fovea_status status = fv_view_sizes("x", x, false);
    if (status == FOVEA_OK)
        status = fv_view_check("x", x, x->shape, false, &from);
    if (status == FOVEA_OK)
        status = fv_view_check("y", y, x->shape, true, &to);
    if (status == FOVEA_OK && !fv_view_same(x, y))
        status = fv_spans_disjoint(&to, &from);
    if (status != FOVEA_OK)
        return status;
    const normalisation m = {fv_view_input(x, ctx->target), fv_view_output(y, ctx->target)};
    fv_rows_run(ctx, x->shape[0] * x->shape[1] * x->shape[2], x->shape[3], rows, &m);
    return FOVEA_OK;
}
