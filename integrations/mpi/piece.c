/* Pieces of attention: one call of the core, or over a cache one for each segment. */
#include "piece.h"
#include "agree.h"
#include "cached.h"

/* One call of the core. */
static fovea_status piece(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *q, int64_t key,
                          int64_t keys, fovea_attention_state *state, const fovea_tensor *out, const fovea_tensor *lse,
                          fv_mpi_scratch scratch) {
    static char nothing; /* where tensors of no keys begin */
    const fovea_mpi_attention_plan *plan = call->plan;
    const fovea_attention_desc *d = &plan->problem.desc;
    const fovea_attention_plan *core = fv_mpi_plan_of(plan, block, keys);
    const int64_t local = keys ? fv_mpi_local(&plan->routes.keys, key) : 0, group = fv_mpi_heads_per_key(d);
    int64_t *q_lens = scratch.lens, *kv_lens = q_lens + d->batch, *offsets = kv_lens + d->batch;
    for (int64_t b = 0; b < d->batch; b++) {
        q_lens[b] = fv_mpi_clamp(fv_mpi_q_len(call, b) - block->query, 0, block->queries);
        kv_lens[b] = fv_mpi_clamp(fv_mpi_kv_len(call, b) - key, 0, keys);
        offsets[b] = call->offsets[b] + block->query - (state ? 0 : key);
    }
    fovea_attention_args args = call->args;
    args.q = *q;
    if (call->cache) {
        fv_mpi_cached_piece(call, key, kv_lens, offsets + d->batch, &args);
    } else {
        args.k = fv_mpi_part(&args.k, block->head, block->heads, local, keys);
        args.v = fv_mpi_part(&args.v, block->head, block->heads, local, keys);
        args.k.data = args.k.data ? args.k.data : &nothing;
        args.v.data = args.v.data ? args.v.data : &nothing;
    }
    args.out = out ? *out : (fovea_tensor){0};
    args.lse = lse ? *lse : (fovea_tensor){0};
    args.q_lens = q_lens;
    args.kv_lens = kv_lens;
    args.q_offsets = offsets;
    if (args.relative.data && args.relative.shape[1] > 1)
        args.relative = fv_mpi_part(&args.relative, block->head * group, block->heads * group, 0, 1);
#define FOVEA_ARGS_HEADS(name, flag, text) args.name = args.name ? args.name + block->head * group : NULL;
#include "fovea/fields.inc"
    args.state = state;
    args.first_key = state ? key : 0;
    const fovea_status status = fovea_attention_execute(core, &args, scratch.workspace, plan->attention_bytes);
    return fv_mpi_from_core(status);
}

fovea_status fv_mpi_piece(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *q, int64_t key,
                          int64_t keys, fovea_attention_state *state, const fovea_tensor *out, const fovea_tensor *lse,
                          fv_mpi_scratch scratch) {
    if (!call->cache)
        return piece(call, block, q, key, keys, state, out, lse, scratch);
    fovea_status status = FOVEA_OK;
    int64_t at = key;
    do {
        const int64_t n = fv_mpi_min(FV_MPI_SEGMENT, key + keys - at);
        const bool last = at + n == key + keys;
        status = piece(call, block, q, at, n, state, last ? out : NULL, last ? lse : NULL, scratch);
        at += n;
    } while (status == FOVEA_OK && at < key + keys);
    return status;
}
