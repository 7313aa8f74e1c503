/* Executions: checks, the vote on statuses, the work, and results for all. */
#include "agree.h"
#include "cached.h"
#include "gather.h"
#include "pass.h"
#include "structs.h"

#include <string.h>

/* Arguments that the core takes and this library does not: all others. Arrays for each head are divided (piece.c). */
static fovea_status check_absent(const fovea_attention_args *a) {
    fovea_attention_args rest = *a;
    rest.q = rest.k = rest.v = rest.out = rest.lse = rest.relative = (fovea_tensor){0};
    rest.q_lens = rest.kv_lens = rest.q_offsets = rest.cache_sequences = NULL;
    rest.cache_layer = 0;
    const fv_mpi_refusal absent[] = {
#define FOVEA_ARGS(type, name) {#name, rest.name},
#define FOVEA_ARGS_TENSOR(name, text) {#name, rest.name.data},
#define FOVEA_ARGS_HEADS(name, flag, text)
#include "fovea/fields.inc"
    };
    return fv_mpi_refuse(absent, sizeof absent / sizeof absent[0]);
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
    const bool allowed = d->causal == FOVEA_CAUSAL_OFFSET || d->causal == FOVEA_CAUSAL_NONE;
    if (given ? !allowed : d->causal == FOVEA_CAUSAL_OFFSET)
        return fv_mpi_fail(given ? FOVEA_ERROR_ARGUMENT : FOVEA_ERROR_NULL, "q_offsets %s",
                           given ? "given: they go with FOVEA_CAUSAL_OFFSET or _NONE" : "is NULL");
    const bool pass = call->plan->choice.method == FOVEA_MPI_METHOD_PASS;
    const bool most = pass && (d->causal != FOVEA_CAUSAL_NONE || d->window_right >= 0);
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t o = given                                    ? given[b]
                          : d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? fv_mpi_kv_len(call, b) - fv_mpi_q_len(call, b)
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
    return fv_mpi_from_core(status);
}

static fovea_status check(fv_mpi_call *call, const fovea_attention_args *args) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    fovea_attention_args_init(&call->args);
    fovea_status status = fv_mpi_read_struct(&call->args, args, sizeof call->args, "args");
    if (status == FOVEA_OK)
        status = check_absent(&call->args);
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

/* Whatever decides the work must be the same on all ranks. */
static uint64_t digest(const fv_mpi_call *call) {
    uint64_t sum = call->args.lse.data != NULL;
    if (call->cache) {
        sum = fv_mpi_digest(sum, &call->args.cache_layer, sizeof call->args.cache_layer);
        sum = fv_mpi_digest(sum, call->args.cache_sequences,
                            (size_t)call->plan->problem.desc.batch * sizeof *call->args.cache_sequences);
    }
    for (int64_t b = 0; b < call->plan->problem.desc.batch; b++) {
        const int64_t of[3] = {fv_mpi_q_len(call, b), fv_mpi_kv_len(call, b), call->offsets[b]};
        sum = fv_mpi_digest(sum, of, sizeof of);
    }
    return sum;
}

static bool shares(const fovea_mpi_attention_plan *plan) {
    return plan->problem.queries == FOVEA_MPI_QUERIES_REPLICATED && plan->ranks > 1;
}

static int64_t shared_bytes(const fovea_mpi_attention_plan *plan) {
    int64_t bytes = plan->ranks * (int64_t)sizeof(fv_mpi_header);
    for (int64_t i = 0; i < plan->routes.block_count; i++)
        bytes += fv_mpi_out_bytes(&plan->problem, &plan->routes.blocks[i]);
    return shares(plan) ? bytes : 0;
}

/* Packs or unpacks the results of a rank's blocks. Returns their bytes. */
static int64_t copy_results(const fv_mpi_call *call, int home, char *data, bool pack, bool unpack) {
    const fovea_mpi_attention_plan *plan = call->plan;
    int64_t bytes = 0;
    for (int64_t i = 0; i < plan->routes.block_count; i++) {
        const fv_mpi_block *b = &plan->routes.blocks[i];
        if (b->home != home)
            continue;
        if (pack)
            fv_mpi_result_pack(call, b, data + bytes);
        if (unpack)
            fv_mpi_result_unpack(call, b, data + bytes);
        bytes += fv_mpi_out_bytes(&plan->problem, b);
    }
    return bytes;
}

/* Sends this rank's message to all, and receives theirs; each begins with a header, written here. counts and places of
 * messages in all are in units. The same status on all ranks: of one whose status was none, with its sentence. */
static fovea_status exchange(const fovea_mpi_attention_plan *plan, char *all, const int *counts, const int *places,
                             fovea_status status) {
    *(fv_mpi_header *)(void *)(all + (int64_t)places[plan->rank] * FV_MPI_UNIT) = (fv_mpi_header){.status = status};
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, plan->unit, plan->comm);
    bool good = true;
    for (int r = 0; r < plan->ranks; r++)
        good = good && ((fv_mpi_header *)(void *)(all + (int64_t)places[r] * FV_MPI_UNIT))->status == FOVEA_OK;
    return good ? FOVEA_OK : fv_mpi_agree(plan->comm, status, 0, "statuses"); /* for the sentence */
}

/* REPLICATED: each rank's status and its blocks' results to all. */
static void share(fv_mpi_call *call) {
    const fovea_mpi_attention_plan *plan = call->plan;
    char *all = fv_mpi_take(call, shared_bytes(plan));
    int *counts = fv_mpi_take(call, plan->ranks * (int64_t)sizeof(int));
    int *places = fv_mpi_take(call, plan->ranks * (int64_t)sizeof(int));
    for (int rank = 0, place = 0; rank < plan->ranks; place += counts[rank++]) {
        char *data = all + (int64_t)(place + 1) * FV_MPI_UNIT;
        const bool pack = rank == plan->rank && call->status == FOVEA_OK;
        places[rank] = place;
        counts[rank] = 1 + (int)(copy_results(call, rank, data, pack, false) / FV_MPI_UNIT);
    }
    call->status = exchange(plan, all, counts, places, call->status);
    for (int rank = 0; rank < plan->ranks && call->status == FOVEA_OK; rank++)
        if (rank != plan->rank)
            copy_results(call, rank, all + (int64_t)(places[rank] + 1) * FV_MPI_UNIT, false, true);
}

size_t fovea_mpi_attention_plan_workspace_size(const fovea_mpi_attention_plan *plan) {
    if (!plan)
        return 0;
    const int64_t lens = fv_mpi_units(fv_mpi_max(1, plan->problem.desc.batch) * (int64_t)sizeof(int64_t));
    const bool pass = plan->choice.method == FOVEA_MPI_METHOD_PASS;
    return (size_t)(FV_MPI_UNIT + 3 * lens + fv_mpi_scratch_bytes(plan) +
                    (pass ? fv_mpi_pass_bytes(plan) : fv_mpi_gather_bytes(plan)) + shared_bytes(plan) +
                    2 * fv_mpi_units(plan->ranks * (int64_t)sizeof(int)));
}

/* Ranks agree before the first message. */
static fovea_status execute(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache, fovea_status status,
                            const fovea_attention_args *args, void *workspace, size_t workspace_size) {
    const size_t needs = fovea_mpi_attention_plan_workspace_size(plan);
    const int64_t lens = fv_mpi_max(1, plan->problem.desc.batch) * (int64_t)sizeof(int64_t);
    fv_mpi_call call = {.plan = plan, .cache = cache};
    if (status == FOVEA_OK && workspace && workspace_size < needs)
        status = fv_mpi_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, this plan needs %zu on this rank",
                             workspace_size, needs);
    if (status == FOVEA_OK) {
        char *memory = workspace ? workspace : plan->workspace;
        call.memory = memory + (FV_MPI_UNIT - (uintptr_t)memory % FV_MPI_UNIT) % FV_MPI_UNIT;
        call.offsets = fv_mpi_take(&call, lens);
        call.zeros = fv_mpi_take(&call, lens);
        call.keys = fv_mpi_take(&call, lens);
        memset(call.zeros, 0, (size_t)lens);
        status = check(&call, args);
    }
    if (status == FOVEA_OK) {
        fv_mpi_call copy = call; /* the work uses the same scratch memory */
        status = check_tensors(&call, fv_mpi_scratch_take(&copy));
    }
    status = fv_mpi_agree(plan->comm, status, status == FOVEA_OK ? digest(&call) : 0,
                          "q_lens, kv_lens, q_offsets, the cache's layer and sequences or whether lse is asked for");
    if (status == FOVEA_OK) {
        if (plan->choice.method == FOVEA_MPI_METHOD_PASS)
            fv_mpi_pass(&call);
        else
            fv_mpi_gather(&call);
        if (shares(plan))
            share(&call);
        status = call.status;
    }
    return status;
}

fovea_status fovea_mpi_attention_execute(fovea_mpi_attention_plan *plan, const fovea_attention_args *args,
                                         void *workspace, size_t workspace_size) {
    return plan ? execute(plan, NULL, FOVEA_OK, args, workspace, workspace_size) : fv_mpi_fail_null("plan");
}

fovea_status fovea_mpi_cache_attention(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache,
                                       const fovea_attention_args *args, void *workspace, size_t workspace_size) {
    if (!plan)
        return fv_mpi_fail_null("plan");
    return execute(plan, cache, cache ? FOVEA_OK : fv_mpi_fail_null("cache"), args, workspace, workspace_size);
}
