/* fovea_normalize_rows (fovea/encoder.h). */
#include "encoder/encoder.h"
#include "near_one.h"

#include <math.h>

typedef struct normalization {
    fv_view x, y;
} normalization;

/* The sum of squares of a row times a power of two. */
static float squares(const normalization *m, int64_t row, float factor) {
    const int64_t channels = m->x.tensor->shape[3];
    float lanes[FV_LANES] = {0}, run[FV_RUN];
    for (int64_t at = 0, n; at < channels; at += n) {
        n = fv_min(channels - at, FV_RUN);
        const float *x = fv_view_read(&m->x, row, at, n, run);
        if (factor != 1.0F)
            fv_run_finish(n, x, factor, 1.0F, run);
        fv_run_squares(n, factor != 1.0F ? run : x, lanes);
    }
    for (int half = FV_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] = lanes[j] + lanes[j + half];
    return lanes[0];
}

static float largest(const normalization *m, int64_t row) {
    const int64_t channels = m->x.tensor->shape[3];
    float most = 0, run[FV_RUN];
    for (int64_t at = 0, n; at < channels; at += n) {
        n = fv_min(channels - at, FV_RUN);
        most = fv_largest(n, fv_view_read(&m->x, row, at, n, run), most);
    }
    return most;
}

static void rows(const void *arg, int64_t begin, int64_t end) {
    const normalization *m = arg;
    const int64_t channels = m->x.tensor->shape[3];
    float in[FV_RUN], out[FV_RUN];
    for (int64_t row = begin; row < end; row++) {
        float factor = 1.0F, sum = squares(m, row, factor);
        if (!(sum < FLT_MAX)) {
            factor = fv_near_one(largest(m, row));
            sum = squares(m, row, factor);
        }
        const float root = sqrtf(sum), length = root < 1e-12F ? 1e-12F : root;
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            fv_run_finish(n, fv_view_read(&m->x, row, at, n, in), factor, length, fv_view_write(&m->y, row, at, out));
            fv_view_written(&m->y, row, at, n, out);
        }
    }
}

fovea_status fovea_normalize_rows(const fovea_context *ctx, const fovea_tensor *x, const fovea_tensor *y) {
    FV_HOLD_EXCEPTIONS();
    fv_span from, to;
    if (!ctx || !x || !y)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : !x ? "x" : "y");
    fovea_status status = fv_floats_sizes("x", x, false);
    if (status == FOVEA_OK)
        status = fv_floats_check("x", x, x->shape, false, &from);
    if (status == FOVEA_OK)
        status = fv_floats_check("y", y, x->shape, true, &to);
    if (status == FOVEA_OK && !fv_tensor_same(x, y))
        status = fv_spans_disjoint(&to, &from);
    if (status != FOVEA_OK)
        return status;
    const normalization m = {fv_view_input(x, ctx->target), fv_view_output(y, ctx->target)};
    fv_rows_run(ctx, x->shape[0] * x->shape[1] * x->shape[2], x->shape[3], rows, &m);
    return FOVEA_OK;
}
