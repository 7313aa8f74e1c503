/* Checks and memory of a call (recurrence.h). */
#include "recurrence/recurrence.h"


enum { MOST_SPANS = 16 };

fovea_status fv_call_sizes(const char *name, const fovea_tensor *t) {
    int64_t all = 1;
    for (int i = 0; i < 4; i++)
        if (t->shape[i] < i % 2) /* heads and channels */
            return fv_fail(FOVEA_ERROR_SHAPE, "%s has a size of %lld; it must be at least %d", name,
                           (long long)t->shape[i], i % 2);
    for (int i = 0; i < 4; i++)
        if (!fv_multiply(all, fv_max(t->shape[i], 1), &all) || all > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s has %lld x %lld x %lld x %lld elements: too large", name,
                           (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2],
                           (long long)t->shape[3]);
    return FOVEA_OK;
}

fovea_status fv_call_check(const fv_operand_rule *tensors, int count, const fv_array_rule *arrays, int array_count,
                           const fv_sequences *s, const void *workspace, size_t workspace_size) {
    fv_span spans[MOST_SPANS];
    bool written[MOST_SPANS] = {false};
    int all = 0;
    fovea_status status = FOVEA_OK;
    for (int i = 0; status == FOVEA_OK && i < count; i++) {
        const fv_operand_rule *t = &tensors[i];
        written[all] = t->output;
        spans[all] = (fv_span){t->name, 0, 0};
        if (t->tensor->data || !t->optional)
            status = fv_floats_check(t->name, t->tensor, t->shape, t->output, &spans[all]);
        all++;
    }
    for (int i = 0; i < array_count; i++) {
        const uintptr_t begin = (uintptr_t)arrays[i].data;
        spans[all++] = (fv_span){arrays[i].name, begin,
                                 begin ? begin + (uintptr_t)arrays[i].count * sizeof *arrays[i].data : begin};
    }
    written[all + 1] = true;
    if (status == FOVEA_OK)
        status = fv_sequences_check(s, spans + all);
    const uintptr_t begin = (uintptr_t)workspace;
    const fv_span room = {"the workspace", begin, begin ? begin + workspace_size : begin};
    return status == FOVEA_OK ? fv_spans_apart(spans, written, all + FV_STATE_SPANS, &room) : status;
}

const float *fv_rows_floats(const fovea_context *ctx, const fovea_tensor *t, int64_t batch, int64_t head, int64_t token,
                            int64_t tokens, float *to, int64_t *ld) {
    fv_widen_bf16_fn *widen = fv_widen_of(t->dtype, ctx->target);
    const void *from = fv_token_at(t, batch, head, token);
    if (!widen) {
        *ld = t->stride[2];
        return from;
    }
    widen(tokens, t->shape[3], from, t->stride[2], to, *ld);
    return to;
}
