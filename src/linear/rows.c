/* Where rows and channels of x, y and residuals lie (execution.h). */
#include "linear/execution.h"

#include "core/core.h"

int64_t fv_linear_row_stride(const fovea_tensor *t) { return t->shape[2] == 1 ? t->stride[0] : t->stride[2]; }

void *fv_linear_place(const fovea_tensor *t, const fv_row_run *run, int64_t head, int64_t channel) {
    return (char *)t->data +
           fv_dtype_size(t->dtype) * (run->batch * t->stride[0] + head * t->stride[1] + run->token * t->stride[2] +
                                      run->done * fv_linear_row_stride(t) + channel);
}

bool fv_linear_one_stretch(const fv_linear_execution *e) {
    const fovea_tensor *x = &e->args->x;
    return x->stride[1] == x->shape[3] || x->shape[1] == 1;
}

int64_t fv_linear_together(const fv_linear_execution *e) {
    return e->gathers || fv_linear_one_stretch(e) ? e->linear->in : e->args->x.shape[3];
}
