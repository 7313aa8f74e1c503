/* The cost of call_cost.py's call in C: attention of one query, one key, 16 channels, without Python. */
#include "fovea/fovea.h"

#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of a call, the mean of count; negative after an error. */
FOVEA_API double call_cost(int count) {
    enum { DIM = 16 };
    static fovea_context *ctx;
    static fovea_attention_plan *plan;
    static void *workspace;
    static float q[DIM], k[DIM], v[DIM], out[DIM];
    if (!plan) {
        fovea_attention_desc desc;
        fovea_attention_desc_init(&desc);
        desc.q_heads = desc.kv_heads = desc.q_len = desc.kv_len = 1;
        desc.head_dim = desc.value_dim = DIM;
        if (fovea_context_create(NULL, &ctx) != FOVEA_OK || fovea_attention_plan_create(ctx, &desc, &plan) != FOVEA_OK)
            return -1;
        workspace = malloc(fovea_attention_plan_workspace_size(plan));
    }
    const double start = seconds();
    for (int i = 0; i < count; i++) {
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        args.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
        if (fovea_attention_execute(plan, &args, workspace, fovea_attention_plan_workspace_size(plan)) != FOVEA_OK)
            return -1;
    }
    return (seconds() - start) / count;
}
