/* Execution: arguments are read and checked, a workspace is found, and the plan's passes go over the view of keys and
 * values (passes.h). */
#include "attention/api/paged.h"
#include "attention/api/passes.h"
#include "attention/api/shared.h"
#include "attention/outputs/state.h"
#include "core/core.h"

#include <stdlib.h>

static fv_kv_side side_of(const fovea_tensor *t, int64_t entry_stride, const int64_t *starts) {
    return (fv_kv_side){.data = t->data,
                        .dtype = t->dtype,
                        .channels = t->shape[3],
                        .stride = {entry_stride, t->stride[1], t->stride[2]},
                        .starts = starts};
}

/* Keys and values of tensors. */
static fv_kv view_of(const fovea_attention_desc *d, const fovea_attention_args *args) {
    const fovea_tensor *k = &args->k, *v = &args->v;
    if (d->packed)
        return (fv_kv){.k = side_of(k, 0, args->kv_cu_seqlens), .v = side_of(v, 0, args->kv_cu_seqlens)};
    return (fv_kv){.k = side_of(k, k->stride[0], args->kv_starts), .v = side_of(v, v->stride[0], args->kv_starts)};
}

fovea_status fv_attention_run(const fovea_attention_plan *plan, const fovea_attention_args *args, void *workspace) {
    if (plan->desc.page_keys == 0) {
        const fv_kv kv = view_of(&plan->desc, args);
        fv_attention_run_view(plan, args, &kv, workspace);
        if (args->state)
            fv_attention_state_advance(plan, args);
        return FOVEA_OK;
    }
    fv_paged paged;
    char *const room = (char *)fv_aligned(workspace) + plan->caller;
    const fovea_status status = fv_paged_open(plan, args, room, &paged);
    if (status != FOVEA_OK)
        return status;
    fv_shared_run(plan, &paged, room + fv_paged_bytes(&plan->desc), workspace);
    if (args->state)
        fv_attention_state_advance(plan, &paged.args); /* with the lengths of the cache's sequences */
    return FOVEA_OK;
}

fovea_status fovea_attention_execute(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                     void *workspace, size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!plan || !args)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", plan ? "args" : "plan");
    fovea_attention_args own_args;
    fovea_status status;
    args = fv_attention_read_args(args, &own_args, &status);
    if (status == FOVEA_OK)
        status = fv_attention_check_args(plan, args, workspace, workspace_size);
    if (status != FOVEA_OK)
        return status;
    void *own = NULL;
    if (!workspace) {
        own = workspace = malloc((size_t)plan->bytes);
        if (!own)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes",
                           (long long)plan->bytes);
    }
    status = fv_attention_run(plan, args, workspace);
    free(own);
    return status;
}
