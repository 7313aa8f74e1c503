/* fovea_mpi_attention_execute(): checks, the vote on statuses, and pieces of attention. */
#include "execute.h"

#include <stdlib.h>
#include <string.h>

static int64_t bytes_of(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }
static int64_t group_of(const fovea_attention_desc *d) { return d->q_heads / fv_mpi_max(1, d->kv_heads); }
static int64_t at_least_one(int64_t n) { return fv_mpi_max(1, n); }

void *fv_mpi_take(fv_mpi_call *call, int64_t bytes) {
    void *taken = call->memory;
    call->memory += fv_mpi_units(bytes);
    return taken;
}

int64_t fv_mpi_scratch_bytes(const fovea_mpi_attention_plan *plan) {
    return fv_mpi_units(4 * at_least_one(plan->problem.desc.batch) * (int64_t)sizeof(int64_t)) +
           fv_mpi_units((int64_t)plan->attention_bytes);
}

fv_mpi_scratch fv_mpi_scratch_take(fv_mpi_call *call) {
    int64_t *lens = fv_mpi_take(call, 4 * at_least_one(call->plan->problem.desc.batch) * (int64_t)sizeof(int64_t));
    return (fv_mpi_scratch){lens, fv_mpi_take(call, (int64_t)call->plan->attention_bytes)};
}

/* ---------------------------------------------------------------------------------------------------------- views --
 * */

static fovea_tensor part(const fovea_tensor *whole, int64_t head, int64_t heads, int64_t token, int64_t tokens) {
    fovea_tensor t = *whole;
    t.shape[1] = heads;
    t.shape[2] = tokens;
    if (t.data)
        t.data = (char *)t.data + (head * t.stride[1] + token * t.stride[2]) * bytes_of(t.dtype);
    return t;
}

fovea_tensor fv_mpi_view(const fv_mpi_call *call, const fv_mpi_block *b, const fovea_tensor *whole) {
    const int64_t group = group_of(&call->plan->problem.desc);
    return part(whole, b->head * group, b->heads * group, b->q_local, b->queries);
}

fovea_tensor fv_mpi_packed(const fv_mpi_call *call, const fv_mpi_block *b, const fovea_tensor *like, void *data) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    return fovea_tensor_bhtd(data, like->dtype, d->batch, b->heads * group_of(d), b->queries, like->shape[3]);
}

void fv_mpi_copy(const fovea_tensor *from, const fovea_tensor *to) {
    const int64_t size = bytes_of(from->dtype);
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t h = 0; h < to->shape[1]; h++)
            for (int64_t t = 0; t < to->shape[2]; t++)
                memcpy((char *)to->data + (b * to->stride[0] + h * to->stride[1] + t * to->stride[2]) * size,
                       (const char *)from->data +
                           (b * from->stride[0] + h * from->stride[1] + t * from->stride[2]) * size,
                       (size_t)(to->shape[3] * size));
}

void fv_mpi_result(const fv_mpi_call *call, const fv_mpi_block *b, void *data, fovea_tensor *out, fovea_tensor *lse) {
    *out = fv_mpi_packed(call, b, &call->args.out, data);
    *lse = (fovea_tensor){0};
    const int64_t outs = out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3] * bytes_of(out->dtype);
    if (call->args.lse.data)
        *lse = fv_mpi_packed(call, b, &call->args.lse, (char *)data + fv_mpi_units(outs));
}

/* ---------------------------------------------------------------------------------------------------------- piece --
 * */

static int64_t kv_len_of(const fv_mpi_call *call, int64_t b) {
    return call->args.kv_lens ? call->args.kv_lens[b] : call->plan->problem.desc.kv_len;
}

static int64_t q_len_of(const fv_mpi_call *call, int64_t b) {
    return call->args.q_lens ? call->args.q_lens[b] : call->plan->problem.desc.q_len;
}

/* Keys that one call of the core takes. */
static fovea_status piece(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *q, int64_t key,
                          int64_t keys, fovea_attention_state *state, const fovea_tensor *out, const fovea_tensor *lse,
                          fv_mpi_scratch scratch) {
    static char nothing; /* where tensors of no keys begin */
    const fovea_mpi_attention_plan *plan = call->plan;
    const fovea_attention_desc *d = &plan->problem.desc;
    const fovea_attention_plan *core = fv_mpi_plan_of(plan, block->queries, block->heads, keys);
    const int64_t local = keys ? fv_mpi_local(&plan->routes.keys, key) : 0, group = group_of(d);
    int64_t *q_lens = scratch.lens, *kv_lens = q_lens + d->batch, *offsets = kv_lens + d->batch;
    for (int64_t b = 0; b < d->batch; b++) {
        q_lens[b] = fv_mpi_clamp(q_len_of(call, b) - block->query, 0, block->queries);
        kv_lens[b] = fv_mpi_clamp(kv_len_of(call, b) - key, 0, keys);
        offsets[b] = call->offsets[b] + block->query - (state ? 0 : key);
    }
    fovea_attention_args args = call->args;
    args.q = *q;
    if (call->cache) {
        fv_mpi_cached_piece(call, key, kv_lens, offsets + d->batch, &args);
    } else {
        args.k = part(&args.k, block->head, block->heads, local, keys);
        args.v = part(&args.v, block->head, block->heads, local, keys);
        args.k.data = args.k.data ? args.k.data : &nothing;
        args.v.data = args.v.data ? args.v.data : &nothing;
    }
    args.out = out ? *out : (fovea_tensor){0};
    args.lse = lse ? *lse : (fovea_tensor){0};
    args.q_lens = q_lens;
    args.kv_lens = kv_lens;
    args.q_offsets = offsets;
    if (args.relative.data && args.relative.shape[1] > 1)
        args.relative = part(&args.relative, block->head * group, block->heads * group, 0, 1);
    if (args.sinks)
        args.sinks += block->head * group;
    args.state = state;
    args.first_key = state ? key : 0;
    const fovea_status status = fovea_attention_execute(core, &args, scratch.workspace, plan->attention_bytes);
    return status == FOVEA_OK ? FOVEA_OK : fv_mpi_fail_core(status);
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

/* --------------------------------------------------------------------------------------------------------- checks --
 * */

/* What the core would take, and this library does not. */
static fovea_status check_absent(const fovea_attention_args *a) {
    const struct {
        const char *name;
        bool given;
    } absent[] = {
        {"q_starts", a->q_starts},
        {"kv_starts", a->kv_starts},
        {"q_cu_seqlens", a->q_cu_seqlens},
        {"kv_cu_seqlens", a->kv_cu_seqlens},
        {"state", a->state},
        {"first_key", a->first_key},
        {"weights", a->weights.data},
        {"scores", a->scores},
        {"summary", a->summary},
        {"stats", a->stats},
        {"cache", a->cache},
        {"pages", a->pages},
    };
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (absent[i].given)
            return fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED, "%s given: attention over ranks does not take it",
                               absent[i].name);
    return FOVEA_OK;
}

static fovea_status check_lens(const char *name, const int64_t *lens, int64_t batch, int64_t most) {
    for (int64_t b = 0; lens && b < batch; b++)
        if (lens[b] < 0 || lens[b] > most)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "%s[%lld] is %lld, the plan's is %lld", name, (long long)b,
                               (long long)lens[b], (long long)most);
    return FOVEA_OK;
}

/* Offsets of all sequences, and whether the plan's routes serve them. */
static fovea_status check_offsets(fv_mpi_call *call) {
    const fv_mpi_problem *p = &call->plan->problem;
    const fovea_attention_desc *d = &p->desc;
    const int64_t limit = (int64_t)1 << 60, *given = call->args.q_offsets;
    const bool takes = d->causal == FOVEA_CAUSAL_OFFSET || d->causal == FOVEA_CAUSAL_NONE;
    if (given ? !takes : d->causal == FOVEA_CAUSAL_OFFSET)
        return fv_mpi_fail(given ? FOVEA_ERROR_ARGUMENT : FOVEA_ERROR_NULL, "q_offsets %s",
                           given ? "given: they go with FOVEA_CAUSAL_OFFSET or _NONE" : "is NULL");
    const bool pass = call->plan->choice.method == FOVEA_MPI_METHOD_PASS;
    const bool most = pass && (d->causal != FOVEA_CAUSAL_NONE || d->window_right >= 0);
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t o = given                                    ? given[b]
                          : d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? kv_len_of(call, b) - q_len_of(call, b)
                                                                   : 0;
        call->offsets[b] = o;
        if (o < -limit || o > limit)
            return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "q_offsets[%lld] is %lld; it must be from -2^60 to 2^60",
                               (long long)b, (long long)o);
        if ((most && o > p->max_offset) || (pass && d->window_left >= 0 && o < p->min_offset))
            return fv_mpi_fail(
                FOVEA_ERROR_UNSUPPORTED,
                "sequence %lld has an offset of %lld, the plan's routes are for %lld to %lld: set min_offset "
                "and max_offset",
                (long long)b, (long long)o, (long long)p->min_offset, (long long)p->max_offset);
    }
    return FOVEA_OK;
}

/* Tensors are checked by the core: a call with this rank's sizes, but without queries and keys. */
static fovea_status check_tensors(fv_mpi_call *call, fv_mpi_scratch scratch) {
    fovea_attention_args args = call->args;
    args.q_lens = args.kv_lens = call->zeros;
    args.q_offsets = call->offsets;
    if (call->cache)
        fv_mpi_cached_piece(call, 0, call->zeros, scratch.lens, &args);
    const fovea_status status =
        fovea_attention_execute(call->plan->check, &args, scratch.workspace, call->plan->attention_bytes);
    return status == FOVEA_OK ? FOVEA_OK : fv_mpi_fail_core(status);
}

static fovea_status check(fv_mpi_call *call, const fovea_attention_args *args) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    if (!args)
        return fv_mpi_fail(FOVEA_ERROR_NULL, "args is NULL");
    fovea_attention_args_init(&call->args);
    if (args->struct_size < sizeof args->struct_size || args->struct_size > sizeof call->args)
        return fv_mpi_fail(FOVEA_ERROR_VERSION, "args.struct_size is %zu, this library knows %zu", args->struct_size,
                           sizeof call->args);
    memcpy(&call->args, args, args->struct_size);
    call->args.struct_size = sizeof call->args;
    fovea_status status = check_absent(&call->args);
    if (status == FOVEA_OK)
        status = check_lens("q_lens", call->args.q_lens, d->batch, d->q_len);
    if (status == FOVEA_OK)
        status = check_lens("kv_lens", call->args.kv_lens, d->batch, d->kv_len);
    if (status == FOVEA_OK && !call->cache != !d->page_keys)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, call->cache ? "desc.page_keys of the plan is 0, but a cache is given"
                                                             : "desc.page_keys of the plan is 256: keys are in a "
                                                               "cache, see fovea_mpi_cache_attention()");
    if (status == FOVEA_OK && call->cache)
        status = fv_mpi_cached_check(call);
    if (status == FOVEA_OK)
        status = check_offsets(call);
    return status == FOVEA_OK && call->cache ? fv_mpi_cached_visible(call) : status;
}

/* Of what decides the work, and must be the same on all ranks. */
static uint64_t digest(const fv_mpi_call *call) {
    uint64_t sum = call->args.lse.data != NULL;
    if (call->cache) {
        sum = fv_mpi_digest(sum, &call->args.cache_layer, sizeof call->args.cache_layer);
        sum = fv_mpi_digest(sum, call->args.cache_sequences,
                            (size_t)call->plan->problem.desc.batch * sizeof *call->args.cache_sequences);
    }
    for (int64_t b = 0; b < call->plan->problem.desc.batch; b++) {
        const int64_t of[3] = {q_len_of(call, b), kv_len_of(call, b), call->offsets[b]};
        sum = fv_mpi_digest(sum, of, sizeof of);
    }
    return sum;
}

/* -------------------------------------------------------------------------------------------------------- results --
 * */

static int64_t shared_bytes(const fovea_mpi_attention_plan *plan) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < plan->routes.block_count; i++)
        bytes += fv_mpi_out_bytes(&plan->problem, &plan->routes.blocks[i]);
    return plan->problem.queries == FOVEA_MPI_QUERIES_DEALT || plan->ranks == 1 ? 0 : bytes;
}

/* REPLICATED: each block's result from its home to all. */
static void share(fv_mpi_call *call) {
    fovea_mpi_attention_plan *plan = call->plan;
    const fv_mpi_routes *r = &plan->routes;
    char *all = fv_mpi_take(call, shared_bytes(plan));
    int *counts = fv_mpi_take(call, plan->ranks * (int64_t)sizeof(int));
    int *places = fv_mpi_take(call, plan->ranks * (int64_t)sizeof(int));
    for (int rank = 0, place = 0; rank < plan->ranks; place += counts[rank++]) {
        counts[rank] = 0;
        places[rank] = place;
        for (int64_t i = 0; i < r->block_count; i++)
            if (r->blocks[i].home == rank)
                counts[rank] += (int)(fv_mpi_out_bytes(&plan->problem, &r->blocks[i]) / FV_MPI_UNIT);
    }
    for (int leave = 0; leave < 2; leave++) { /* own results go in; after the exchange the others' come out */
        for (int rank = 0; rank < plan->ranks && call->status == FOVEA_OK; rank++) {
            char *at = all + (int64_t)places[rank] * FV_MPI_UNIT;
            for (int64_t i = 0; i < r->block_count; i++) {
                const fv_mpi_block *b = &r->blocks[i];
                if (b->home != rank)
                    continue;
                fovea_tensor out, lse, my_out = fv_mpi_view(call, b, &call->args.out);
                const fovea_tensor my_lse = fv_mpi_view(call, b, &call->args.lse);
                fv_mpi_result(call, b, at, &out, &lse);
                at += fv_mpi_out_bytes(&plan->problem, b);
                if ((rank == plan->rank) == (leave != 0))
                    continue;
                fv_mpi_copy(leave ? &out : &my_out, leave ? &my_out : &out);
                if (lse.data)
                    fv_mpi_copy(leave ? &lse : &my_lse, leave ? &my_lse : &lse);
            }
        }
        if (!leave)
            MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, plan->unit, plan->comm);
    }
}

/* -------------------------------------------------------------------------------------------------------- execute --
 * */

size_t fovea_mpi_attention_plan_workspace_size(const fovea_mpi_attention_plan *plan) {
    if (!plan)
        return 0;
    const int64_t lens = fv_mpi_units(at_least_one(plan->problem.desc.batch) * (int64_t)sizeof(int64_t));
    const bool pass = plan->choice.method == FOVEA_MPI_METHOD_PASS;
    return (size_t)(FV_MPI_UNIT + 3 * lens + fv_mpi_scratch_bytes(plan) +
                    (pass ? fv_mpi_pass_bytes(plan) : fv_mpi_gather_bytes(plan)) + shared_bytes(plan) +
                    2 * fv_mpi_units(plan->ranks * (int64_t)sizeof(int)));
}

fovea_status fovea_mpi_attention_execute(fovea_mpi_attention_plan *plan, const fovea_attention_args *args,
                                         void *workspace, size_t workspace_size) {
    return plan ? fv_mpi_execute(plan, NULL, FOVEA_OK, args, workspace, workspace_size)
                : fv_mpi_fail(FOVEA_ERROR_NULL, "plan is NULL");
}

fovea_status fv_mpi_execute(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache, fovea_status status,
                            const fovea_attention_args *args, void *workspace, size_t workspace_size) {
    const size_t needs = fovea_mpi_attention_plan_workspace_size(plan);
    const int64_t lens = at_least_one(plan->problem.desc.batch) * (int64_t)sizeof(int64_t);
    fv_mpi_call call = {.plan = plan, .status = status, .cache = cache};
    fovea_attention_args_init(&call.args);
    const bool small = workspace && workspace_size < needs;
    if (small && status == FOVEA_OK)
        call.status = fv_mpi_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, this plan needs %zu on this rank",
                                  workspace_size, needs);
    void *own = workspace && !small ? NULL : malloc(needs); /* this rank's messages are due in any case */
    if (!own && (!workspace || small))
        MPI_Abort(plan->comm, FOVEA_ERROR_OUT_OF_MEMORY);
    const uintptr_t begin = (uintptr_t)(own ? own : workspace);
    call.memory = (char *)(begin + (FV_MPI_UNIT - begin % FV_MPI_UNIT) % FV_MPI_UNIT);
    call.offsets = fv_mpi_take(&call, lens);
    call.zeros = fv_mpi_take(&call, lens);
    call.keys = fv_mpi_take(&call, lens);
    memset(call.zeros, 0, (size_t)lens);
    if (call.status == FOVEA_OK)
        call.status = check(&call, args);
    if (call.status == FOVEA_OK) {
        fv_mpi_call copy = call; /* attention's workspace, which the work takes again */
        call.status = check_tensors(&call, fv_mpi_scratch_take(&copy));
    }
    fv_mpi_vote vote;
    fv_mpi_vote_begin(&vote, plan->comm, call.status, call.status == FOVEA_OK ? digest(&call) : 0);
    if (plan->choice.method == FOVEA_MPI_METHOD_PASS)
        fv_mpi_pass(&call);
    else
        fv_mpi_gather(&call);
    if (plan->problem.queries == FOVEA_MPI_QUERIES_REPLICATED && plan->ranks > 1)
        share(&call);
    const fovea_status agreed =
        fv_mpi_vote_end(&vote, "q_lens, kv_lens, q_offsets, the cache's layer and sequences or whether lse "
                               "is asked for");
    free(own);
    return agreed != FOVEA_OK ? agreed : call.status;
}
