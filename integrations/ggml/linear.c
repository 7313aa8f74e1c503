/* MUL_MAT: weights that the buffer type packed (weights.h), and any other matrices, packed for the call.
 *
 *   src[0]  weights, [in, out, n, m]
 *   src[1]  rows, [in, rows, N, M], N a multiple of n, M of m: matrix (b, c) multiplies weights (b / (N/n), c / (M/m))
 *   op      [out, rows, N, M] */
#include "delegate.h"
#include "operations.h"
#include "weights.h"
#include "weights_pack.h"

bool fg_linear_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[1];
    const fg_type *type = fg_type_of(x->type), *to = fg_type_of(op->type);
    if (!fg_weights_serve(op->src[0]) || !type || type->block != 1 || !to || to->dtype != FOVEA_DTYPE_F32)
        return false;
    for (int i = 1; i < 4; i++)
        if (x->nb[i] % x->nb[0] != 0 || op->nb[i] % sizeof(float) != 0)
            return false;
    return x->nb[0] == (size_t)type->bytes && op->nb[0] == sizeof(float);
}

/* Rows of float32: where they are, or widened, without gaps. */
static fovea_tensor rows_of(fg_backend *backend, const struct ggml_tensor *x) {
    const fg_type *type = fg_type_of(x->type);
    fovea_tensor rows = {.data = x->data, .dtype = FOVEA_DTYPE_F32, .stride = {0, 0, 0, 1}};
    int64_t *stride[] = {&rows.stride[2], &rows.stride[1], &rows.stride[0]};
    for (int i = 1; i < 4; i++)
        *stride[i - 1] = (int64_t)(x->nb[i] / sizeof(float));
    if (type->dtype == FOVEA_DTYPE_F32)
        return rows;
    int64_t step = x->ne[0];
    for (int i = 1; i < 4; step *= x->ne[i++])
        *stride[i - 1] = step;
    float *to = rows.data = fg_memory_get(&backend->widened, (size_t)step * sizeof(float));
    for (int64_t r = 0; to && r < x->ne[1] * x->ne[2] * x->ne[3]; r++) {
        const int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
        fovea_convert(x->ne[0], (char *)x->data + (size_t)i1 * x->nb[1] + (size_t)i2 * x->nb[2] + (size_t)i3 * x->nb[3],
                      type->dtype, to + r * x->ne[0], FOVEA_DTYPE_F32);
    }
    return rows;
}

/* Matrices first to first + count - 1 of the third axis, number c of the fourth. x has the strides of [M, N, rows]. */
static fovea_status multiply(fg_backend *backend, const fovea_context *context, const fovea_linear *map,
                             const fovea_tensor *x, struct ggml_tensor *op, int64_t first, int64_t count, int64_t c) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = (fovea_tensor){.data = (float *)x->data + first * x->stride[1] + c * x->stride[0],
                            .dtype = FOVEA_DTYPE_F32,
                            .shape = {count, 1, op->ne[1], op->src[0]->ne[0]},
                            .stride = {x->stride[1], 0, x->stride[2], 1}};
    const fovea_tensor y = {
        .data = (char *)op->data + (size_t)first * op->nb[2] + (size_t)c * op->nb[3],
        .dtype = FOVEA_DTYPE_F32,
        .shape = {count, 1, op->ne[1], op->ne[0]},
        .stride = {(int64_t)(op->nb[2] / sizeof(float)), 0, (int64_t)(op->nb[1] / sizeof(float)), 1}};
    args.y = &y;
    const size_t size = fovea_linear_apply_workspace_size(context, map);
    void *workspace = fg_memory_get(&backend->workspace, size);
    return workspace ? fovea_linear_apply(context, map, &args, workspace, size) : FOVEA_ERROR_OUT_OF_MEMORY;
}

enum ggml_status fg_linear_compute(fg_backend *backend, struct ggml_tensor *op) {
    const struct ggml_tensor *weights = op->src[0], *x = op->src[1];
    const int64_t n = weights->ne[2], m = weights->ne[3], each = x->ne[2] / n, per = x->ne[3] / m;
    const bool known = fg_weights_known(weights);
    fovea_linear *const *maps = known ? fg_weights_maps(weights) : NULL;
    if (known && !maps)
        return fg_delegate_compute(backend, op);
    const double operations = 2.0 * (double)(weights->ne[0] * op->ne[0]) * (double)(op->ne[1] * op->ne[2] * op->ne[3]);
    fg_team *team = fg_backend_team_for(backend, FG_AWAKE * operations);
    const fovea_tensor rows = rows_of(backend, x);
    enum ggml_status status = team && rows.data ? GGML_STATUS_SUCCESS : GGML_STATUS_ALLOC_FAILED;
    for (int64_t i = 0; status == GGML_STATUS_SUCCESS && i < n * m; i++) {
        const int64_t i2 = i % n, i3 = i / n;
        const char *bytes = (const char *)weights->data + (size_t)i2 * weights->nb[2] + (size_t)i3 * weights->nb[3];
        fovea_linear *own = known ? NULL : fg_weights_pack(team->context, weights, bytes);
        const fovea_linear *map = known ? maps[i] : own;
        if (!map) /* a scale is NaN, or there is no memory */
            return fg_delegate_compute(backend, op);
        for (int64_t c = i3 * per; c < (i3 + 1) * per && status == GGML_STATUS_SUCCESS; c++)
            status = fg_status(multiply(backend, team->context, map, &rows, op, i2 * each, each, c), "MUL_MAT");
        fovea_linear_destroy(own);
    }
    return status;
}
