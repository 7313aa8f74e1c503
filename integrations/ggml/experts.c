/* MUL_MAT_ID: rows multiply weights of the experts that they have chosen.
 *
 *   src[0]  weights, [in, out, experts]
 *   src[1]  rows, [in, k or 1, tokens]
 *   src[2]  numbers of experts, [k, tokens]
 *   op      [out, k, tokens] */
#include "delegate.h"
#include "elementwise.h"
#include "weights.h"
#include "weights_pack.h"

#include <stdlib.h>

bool fg_experts_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *weights = op->src[0], *x = op->src[1], *ids = op->src[2];
    return fg_weights_serve(weights) && weights->ne[2] <= 2048 && weights->ne[3] == 1 && fg_is_strided(x) &&
           fg_is_strided(op) && x->ne[3] == 1 && (x->ne[1] == 1 || x->ne[1] == ids->ne[0]) && fg_is_named(ids, "i32");
}

/* [tokens, 1, rows, channels] */
static fovea_tensor by_token(const struct ggml_tensor *t) {
    fovea_tensor rows = fg_tensor(t);
    rows.shape[0] = t->ne[2];
    rows.shape[1] = 1;
    rows.stride[0] = rows.stride[1];
    return rows;
}

static int64_t *read_chosen(fg_backend *backend, const struct ggml_tensor *ids) {
    int64_t *chosen = fg_memory_get(&backend->ranges, (size_t)(ids->ne[0] * ids->ne[1]) * sizeof *chosen);
    for (int64_t i = 0; chosen && i < ids->ne[0] * ids->ne[1]; i++)
        chosen[i] = *(const int32_t *)(const void *)((const char *)ids->data + (size_t)(i % ids->ne[0]) * ids->nb[0] +
                                                     (size_t)(i / ids->ne[0]) * ids->nb[1]);
    return chosen;
}

/* Maps of the chosen experts, for weights that are not known; false if one cannot be packed. */
static bool pack_chosen(const fovea_context *context, const struct ggml_tensor *weights, const int64_t *chosen,
                        int64_t rows, fovea_linear **maps) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t e = chosen[i];
        if (e < 0 || e >= weights->ne[2] || maps[e]) /* others are refused with their number */
            continue;
        maps[e] = fg_weights_pack(context, weights, (const char *)weights->data + (size_t)e * weights->nb[2]);
        if (!maps[e])
            return false;
    }
    return true;
}

static fovea_status multiply(fg_backend *backend, const fovea_context *context, const struct ggml_tensor *op,
                             fovea_linear *const *maps, const int64_t *chosen) {
    const int64_t experts = op->src[0]->ne[2], k = op->ne[1];
    const fovea_linear *any = NULL;
    for (int64_t e = 0; e < experts && !any; e++)
        any = maps[e];
    const fovea_tensor x = by_token(op->src[1]), y = by_token(op);
    const size_t size = fovea_experts_multiply_workspace_size(context, any, experts, k * op->ne[2]);
    void *workspace = fg_memory_get(&backend->workspace, size);
    return workspace ? fovea_experts_multiply(context, (const fovea_linear *const *)maps, experts, k, chosen, &x, &y,
                                              workspace, size)
                     : FOVEA_ERROR_OUT_OF_MEMORY;
}

enum ggml_status fg_experts_compute(fg_backend *backend, struct ggml_tensor *op) {
    const struct ggml_tensor *weights = op->src[0];
    const int64_t experts = weights->ne[2], rows = op->ne[1] * op->ne[2];
    const bool known = fg_weights_known(weights);
    fovea_linear *const *maps = known ? fg_weights_maps(weights) : NULL;
    if (known && !maps)
        return fg_delegate_compute(backend, op);
    fg_team *team = fg_backend_team_for(backend, FG_AWAKE * 2.0 * (double)(weights->ne[0] * op->ne[0]) * (double)rows);
    const int64_t *chosen = read_chosen(backend, op->src[2]);
    fovea_linear **own = known ? NULL : calloc((size_t)experts, sizeof *own);
    if (!team || !chosen || (!known && !own)) {
        free(own);
        return GGML_STATUS_ALLOC_FAILED;
    }
    const bool packed = known || pack_chosen(team->context, weights, chosen, rows, own);
    const enum ggml_status status =
        packed ? fg_status(multiply(backend, team->context, op, known ? maps : own, chosen), "MUL_MAT_ID")
               : fg_delegate_compute(backend, op);
    for (int64_t e = 0; own && e < experts; e++)
        fovea_linear_destroy(own[e]);
    free(own);
    return status;
}
