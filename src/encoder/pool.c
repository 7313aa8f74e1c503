/* fovea_pool_tokens (fovea/encoder.h). */
#include "encoder/encoder.h"

#include <math.h>
#include <string.h>

typedef struct pool {
    const fovea_pool_tokens_args *args;
    fv_view x, y;
} pool;

/* The weight of a token. */
static float weight_of(const fovea_pool_tokens_args *args, int64_t begin, int64_t row) {
    return args->weights ? args->weights[row] : (float)(row - begin + 1);
}

/* The divisor of the sum over a sequence; 0: the result is +0. */
static float divisor_of(const fovea_pool_tokens_args *args, int64_t begin, int64_t end) {
    float sum = 0.0F;
    switch (args->pooling) {
    case FOVEA_POOLING_MEAN: return (float)(end - begin);
    case FOVEA_POOLING_MEAN_SQRT_LEN: return sqrtf((float)(end - begin));
    case FOVEA_POOLING_WEIGHTED_MEAN:
        for (int64_t row = begin; row < end; row++)
            sum = sum + weight_of(args, begin, row);
        return sum;
    default: return end > begin ? 1.0F : 0.0F;
    }
}

/* n channels of a sequence from at on, before the division. */
static void gather(const pool *m, int64_t begin, int64_t end, int64_t at, int64_t n, float *to) {
    const fovea_pooling pooling = m->args->pooling;
    const bool sums = pooling >= FOVEA_POOLING_MEAN && pooling <= FOVEA_POOLING_WEIGHTED_MEAN;
    float in[FV_RUN];
    if (sums)
        memset(to, 0, (size_t)n * sizeof *to);
    else
        memcpy(to, fv_view_read(&m->x, pooling == FOVEA_POOLING_LAST ? end - 1 : begin, at, n, in),
               (size_t)n * sizeof *to);
    for (int64_t row = begin; row < end && pooling >= FOVEA_POOLING_MEAN; row++) {
        const float *x = fv_view_read(&m->x, row, at, n, in);
        if (pooling == FOVEA_POOLING_MAX)
            fv_run_max(n, x, to);
        else if (pooling == FOVEA_POOLING_WEIGHTED_MEAN)
            fv_run_add_weighted(n, weight_of(m->args, begin, row), x, to);
        else
            fv_run_add(n, x, to);
    }
}

static void rows(const void *arg, int64_t first, int64_t last) {
    const pool *m = arg;
    const int64_t channels = m->args->x.shape[3];
    float sum[FV_RUN], out[FV_RUN];
    for (int64_t s = first; s < last; s++) {
        const int64_t begin = m->args->begin[s], end = m->args->end[s];
        const float divisor = divisor_of(m->args, begin, end);
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            float *y = fv_view_write(&m->y, s, at, out);
            if (divisor == 0.0F)
                memset(y, 0, (size_t)n * sizeof *y);
            else {
                gather(m, begin, end, at, n, sum);
                fv_run_finish(n, sum, 1.0F, divisor, y);
            }
            fv_view_written(&m->y, s, at, n, out);
        }
    }
}

static fovea_status check_sequences(const fovea_pool_tokens_args *args, const fv_span *y) {
    const int64_t count = args->y.shape[2], rows_of_x = args->x.shape[2];
    if (count > 0 && (!args->begin || !args->end))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", args->begin ? "end" : "begin");
    const fv_span begin = fv_lens_span("begin", args->begin, count), end = fv_lens_span("end", args->end, count);
    const uintptr_t at = (uintptr_t)args->weights;
    const fv_span weights = {"weights", at, at ? at + (uintptr_t)rows_of_x * sizeof(float) : at};
    fovea_status status = fv_spans_disjoint(y, &begin);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(y, &end);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(y, &weights);
    for (int64_t s = 0; status == FOVEA_OK && s < count; s++)
        if (args->begin[s] < 0 || args->begin[s] > args->end[s] || args->end[s] > rows_of_x)
            status = fv_fail(FOVEA_ERROR_SHAPE, "sequence %lld is rows %lld to %lld, of %lld rows", (long long)s,
                             (long long)args->begin[s], (long long)args->end[s], (long long)rows_of_x);
    return status;
}

static fovea_status check(const fovea_pool_tokens_args *args) {
    fv_span x, y;
    fovea_status status = fv_floats_sizes("x", &args->x, true);
    if (status == FOVEA_OK)
        status = fv_floats_sizes("y", &args->y, true);
    const int64_t shape[4] = {1, 1, args->y.shape[2], args->x.shape[3]};
    if (status == FOVEA_OK)
        status = fv_floats_check("x", &args->x, args->x.shape, false, &x);
    if (status == FOVEA_OK)
        status = fv_floats_check("y", &args->y, shape, true, &y);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&y, &x);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_pooling, "pooling", (int)args->pooling);
    if (status == FOVEA_OK && args->reserved)
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "a reserved field is set");
    return status == FOVEA_OK ? check_sequences(args, &y) : status;
}

fovea_status fovea_pool_tokens(const fovea_context *ctx, const fovea_pool_tokens_args *given) {
    FV_HOLD_EXCEPTIONS();
    fovea_pool_tokens_args args;
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    fovea_pool_tokens_args_init(&args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_pool_tokens_args), given, &args);
    if (status == FOVEA_OK)
        status = check(&args);
    const int64_t sequences = args.y.shape[2];
    if (status != FOVEA_OK || sequences == 0)
        return status;
    const pool m = {&args, fv_view_input(&args.x, ctx->target), fv_view_output(&args.y, ctx->target)};
    fv_rows_run(ctx, sequences, args.x.shape[3] * fv_ceil_div(args.x.shape[2], sequences), rows, &m);
    return FOVEA_OK;
}
