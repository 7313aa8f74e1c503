/* fovea_norm_rms and fovea_norm_layer (fovea/norm.h): rows are dealt to threads in equal ranges, and go to the kernel
 * in runs of tokens of one head. Rows, weight and bias of 16 bits become floats in scratch first. */
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "fovea/fovea.h"

#include <math.h>
#include <stdlib.h>

enum { TASK_ELEMENTS = 1 << 14, RUN_FLOATS = 1 << 12 }; /* least for a thread of its own; of a run in scratch */

typedef struct normalization {
    const fovea_norm_args *args;
    fv_normalize_f32_fn *normalize;
    fv_normalize with;
    fv_widen_bf16_fn *widen_x; /* NULL: float32 */
    fv_narrow_bf16_fn *narrow_y;
    int64_t rows, tasks, run; /* run: most rows of a call */
    float *scratch;           /* [tasks][run][channels], if rows are of 16 bits */
    int64_t vectors, bytes; /* of the workspace: where weight and bias become floats; all. Negative: more than memory */
} normalization;

/* ------------------------------------------------------------------------------------------------------- checks -- */

static fovea_status check_vector(const char *name, const void *data, fovea_dtype dtype, int64_t channels,
                                 const fv_span *y, const fv_span *workspace) {
    if (!data)
        return FOVEA_OK;
    if (fv_type_of(dtype) == FV_TYPE_COUNT)
        return fv_floats_refuse(name, dtype);
    const uintptr_t begin = (uintptr_t)data;
    const fv_span span = {name, begin, begin + (uintptr_t)(channels * fv_dtype_size(dtype))};
    const fovea_status status = fv_spans_disjoint(y, &span);
    return status == FOVEA_OK ? fv_spans_disjoint(&span, workspace) : status;
}

static fovea_status check(const fovea_norm_args *args, const void *memory, size_t size) {
    const int64_t *shape = args->x.shape;
    const uintptr_t begin = (uintptr_t)memory;
    const fv_span workspace = {"the workspace", begin, memory ? begin + size : begin};
    fv_span x, y;
    fovea_status status = fv_floats_sizes("x", &args->x, false);
    if (status == FOVEA_OK)
        status = fv_floats_check("x", &args->x, shape, false, &x);
    if (status == FOVEA_OK)
        status = fv_floats_check("y", &args->y, shape, true, &y);
    if (status == FOVEA_OK && !fv_tensor_same(&args->x, &args->y))
        status = fv_spans_disjoint(&y, &x);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&x, &workspace);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&y, &workspace);
    if (status == FOVEA_OK)
        status = check_vector("weight", args->weight, args->weight_dtype, shape[3], &y, &workspace);
    if (status == FOVEA_OK)
        status = check_vector("bias", args->bias, args->bias_dtype, shape[3], &y, &workspace);
    if (status == FOVEA_OK && !(args->eps >= 0 && isfinite((float)args->eps)))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "eps is %g; it must be a finite number of at least 0", args->eps);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- execution -- */

static void *place(const fovea_tensor *t, int64_t row, int64_t *stride) {
    const int64_t token = row % t->shape[2], head = row / t->shape[2] % t->shape[1],
                  batch = row / t->shape[2] / t->shape[1];
    *stride = t->stride[2];
    return (char *)t->data +
           fv_dtype_size(t->dtype) * (batch * t->stride[0] + head * t->stride[1] + token * t->stride[2]);
}

/* count rows of one head from a row on. */
static void run_rows(const normalization *m, int64_t row, int64_t count, float *scratch) {
    const fovea_norm_args *args = m->args;
    const int64_t n = args->x.shape[3];
    int64_t x_stride, y_stride;
    const void *x = place(&args->x, row, &x_stride);
    void *y = place(&args->y, row, &y_stride);
    if (m->widen_x) {
        m->widen_x(count, n, x, x_stride, scratch, n);
        x = scratch;
        x_stride = n;
    }
    m->normalize(count, n, x, x_stride, &m->with, m->narrow_y ? scratch : y, m->narrow_y ? n : y_stride);
    if (m->narrow_y)
        m->narrow_y(count, n, scratch, n, y, y_stride);
}

static void rows_task(void *arg, int64_t task) {
    const normalization *m = arg;
    const int64_t tokens = m->args->x.shape[2], each = fv_ceil_div(m->rows, m->tasks);
    const int64_t end = fv_min((task + 1) * each, m->rows);
    float *scratch = m->scratch ? m->scratch + task * m->run * m->args->x.shape[3] : NULL;
    for (int64_t row = task * each, count; row < end; row += count) {
        count = fv_min(fv_min(end - row, tokens - row % tokens), m->run);
        run_rows(m, row, count, scratch);
    }
}

/* A vector as floats: itself, or at *to, which moves on. */
static const float *vector_of(const fovea_context *ctx, const void *data, fovea_dtype dtype, int64_t n, float **to) {
    fv_widen_bf16_fn *widen = fv_widen_of(dtype, ctx->target);
    if (!data || !widen)
        return data;
    float *floats = *to;
    widen(1, n, data, n, floats, n);
    *to += n;
    return floats;
}

/* How rows are dealt, by sizes and types alone. */
static normalization deal(const fovea_context *ctx, const fovea_norm_args *args) {
    const int64_t *shape = args->x.shape, n = shape[3], size = (int64_t)sizeof(float);
    const bool rows_of_16 = args->x.dtype != FOVEA_DTYPE_F32 || args->y.dtype != FOVEA_DTYPE_F32;
    normalization m = {.args = args, .rows = shape[0] * shape[1] * shape[2]};
    m.tasks = fv_max(fv_min(fv_min(m.rows * n / TASK_ELEMENTS, m.rows), ctx->threads.count), 1);
    m.run = rows_of_16 ? fv_min(fv_max(RUN_FLOATS / n, 1), m.rows) : m.rows;
    fv_reserve(&m.bytes, rows_of_16 ? m.tasks * m.run : 0, n * size);
    m.vectors =
        fv_reserve(&m.bytes, (args->weight_dtype != FOVEA_DTYPE_F32) + (args->bias_dtype != FOVEA_DTYPE_F32), n * size);
    if (m.bytes > 0 && !fv_add(m.bytes, FV_ALIGNMENT, &m.bytes))
        m.bytes = -1;
    return m;
}

static fovea_status execute(const fovea_context *ctx, const fovea_norm_args *args, void *workspace, size_t size,
                            bool centre) {
    normalization m = deal(ctx, args);
    void *own = NULL;
    if (m.rows == 0)
        return FOVEA_OK;
    if (workspace && (m.bytes < 0 || size < (size_t)m.bytes))
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, but this norm needs %lld", size,
                       (long long)m.bytes);
    if (!workspace && m.bytes != 0) {
        own = workspace = m.bytes > 0 ? malloc((size_t)m.bytes) : NULL;
        if (!own)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes", (long long)m.bytes);
    }
    char *const base = m.bytes > 0 ? fv_aligned(workspace) : NULL;
    float *at = base ? (float *)(void *)(base + m.vectors) : NULL;
    m.widen_x = fv_widen_of(args->x.dtype, ctx->target);
    m.narrow_y = fv_narrow_of(args->y.dtype, ctx->target);
    m.scratch = m.widen_x || m.narrow_y ? (float *)(void *)base : NULL;
    m.normalize = fv_kernel_best(FV_OP_normalize, FV_TYPE_f32, ctx->target)->run.normalize_f32;
    m.with = (fv_normalize){.weight = vector_of(ctx, args->weight, args->weight_dtype, args->x.shape[3], &at),
                            .bias = vector_of(ctx, args->bias, args->bias_dtype, args->x.shape[3], &at),
                            .eps = (float)args->eps,
                            .centre = centre};
    fv_parallel(&ctx->threads, m.tasks, &(fv_work){.task = rows_task, .arg = &m});
    free(own);
    return FOVEA_OK;
}

/* Reads what may be an older caller's. */
static fovea_status read_args(const fovea_context *ctx, const fovea_norm_args *given, fovea_norm_args *args) {
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    fovea_norm_args_init(args);
    return fv_struct_read(FV_STRUCT(fovea_norm_args), given, args);
}

size_t fovea_norm_workspace_size(const fovea_context *ctx, const fovea_norm_args *given) {
    fovea_norm_args args;
    if (read_args(ctx, given, &args) != FOVEA_OK || fv_floats_sizes("x", &args.x, false) != FOVEA_OK)
        return 0;
    return (size_t)fv_max(deal(ctx, &args).bytes, 0);
}

static fovea_status norm(const fovea_context *ctx, const fovea_norm_args *given, void *workspace, size_t size,
                         bool centre) {
    FV_HOLD_EXCEPTIONS();
    fovea_norm_args args;
    fovea_status status = read_args(ctx, given, &args);
    if (status == FOVEA_OK)
        status = check(&args, workspace, size);
    return status == FOVEA_OK ? execute(ctx, &args, workspace, size, centre) : status;
}

fovea_status fovea_norm_rms(const fovea_context *ctx, const fovea_norm_args *args, void *workspace,
                            size_t workspace_size) {
    return norm(ctx, args, workspace, workspace_size, false);
}

fovea_status fovea_norm_layer(const fovea_context *ctx, const fovea_norm_args *args, void *workspace,
                              size_t workspace_size) {
    return norm(ctx, args, workspace, workspace_size, true);
}
