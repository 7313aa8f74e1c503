/* Packed weights on nodes of memory (linear.h): their pages, and a map of its own for each node that has a copy. */
#include "core/core.h"
#include "linear/linear.h"

fovea_status fv_linear_to_nodes(fovea_linear *l) {
    const int64_t panel = fv_operand_bytes(l->weights.format, l->in, l->panel);
    const fovea_status status = fv_placement_apply(l->ctx, &l->placement, l->memory, panel, l->panels);
    return status == FOVEA_OK ? fv_placement_apply(l->ctx, &l->placement, l->group_scales, l->scale_bytes, l->panels)
                              : status;
}

fovea_status fv_linear_copy(fovea_linear *l, const fovea_linear_desc *desc) {
    const fv_threads *t = &l->ctx->threads;
    fovea_linear_desc own = *desc;
    fovea_status status = FOVEA_OK;
    own.placement = FOVEA_PLACEMENT_NODE;
    for (int i = 0; l->placement.how == FOVEA_PLACEMENT_COPIES && i < t->count && status == FOVEA_OK; i++) {
        const int node = fv_node_of(t, i, t->count);
        own.placement_node = t->nodes->node[node].number;
        if (node != l->placement.node && !l->copies[node] && t->nodes->node[node].memory)
            status = fovea_linear_pack(l->ctx, &own, &l->copies[node]);
    }
    return status;
}
