/* GATHER: every rank computes each of its segments into a state of its own, and a block's home merges them in the order
 * of keys. A rank begins with the blocks of others, so that their states travel while it computes its own. Segments
 * that no query of a block sees are neither computed nor sent. */
#include "gather.h"
#include "agree.h"
#include "piece.h"

#include <string.h>

/* States of the segments of one rank for one block: header, then those of segments [first, first + count) among the
 * rank's. */
typedef struct partials {
    char *memory;
    MPI_Request request;
} partials;

typedef struct gather {
    fv_mpi_call *call;
    fv_mpi_scratch *scratch; /* [threads] */
    partials *partials;      /* [blocks][ranks]; of others' blocks only this rank's */
    char **q;                /* [blocks] */
    MPI_Request *q_requests; /* [blocks][ranks] */
} gather;

static int64_t segments_of(const fovea_mpi_attention_plan *plan, int rank) {
    return fv_mpi_ceil(fv_mpi_held(&plan->routes.keys, rank), FV_MPI_SEGMENT);
}

static bool travels(const fovea_mpi_attention_plan *plan) {
    return plan->problem.queries == FOVEA_MPI_QUERIES_DEALT && plan->ranks > 1;
}

static int64_t partials_bytes(const fovea_mpi_attention_plan *plan, const fv_mpi_block *b, int rank) {
    return b->home == plan->rank || rank == plan->rank
               ? FV_MPI_UNIT + fv_mpi_max(1, segments_of(plan, rank)) * fv_mpi_state_of(plan, b)
               : 0;
}

int64_t fv_mpi_gather_bytes(const fovea_mpi_attention_plan *plan) {
    const int64_t blocks = plan->routes.block_count, ranks = plan->ranks;
    int64_t bytes =
        fv_mpi_units(plan->threads * (int64_t)sizeof(fv_mpi_scratch)) +
        (plan->threads - 1) * fv_mpi_scratch_bytes(plan) + fv_mpi_units(blocks * ranks * (int64_t)sizeof(partials)) +
        fv_mpi_units(blocks * (int64_t)sizeof(char *)) + fv_mpi_units(plan->threads * (int64_t)sizeof(fovea_status)) +
        fv_mpi_units(blocks * ranks * (int64_t)sizeof(MPI_Request));
    for (int64_t i = 0; i < blocks; i++) {
        const fv_mpi_block *b = &plan->routes.blocks[i];
        for (int rank = 0; rank < ranks; rank++)
            bytes += partials_bytes(plan, b, rank);
        bytes += travels(plan) ? fv_mpi_q_bytes(&plan->problem, b) : 0;
    }
    return bytes;
}

static partials *partials_at(const gather *g, int64_t block, int rank) {
    return &g->partials[block * g->call->plan->ranks + rank];
}

static fovea_attention_state *state_at(const gather *g, const fv_mpi_block *b, char *memory, int64_t index) {
    return (void *)(memory + FV_MPI_UNIT + index * fv_mpi_state_of(g->call->plan, b));
}

/* Which of this rank's segments a query of the block may see. */
static fv_mpi_header visible_segments(const gather *g, const fv_mpi_block *b) {
    const fovea_mpi_attention_plan *plan = g->call->plan;
    const fovea_attention_desc *d = &plan->problem.desc;
    int64_t min = INT64_MAX, max = INT64_MIN, keys = 0, low, high;
    for (int64_t i = 0; i < d->batch; i++) {
        min = fv_mpi_min(min, g->call->offsets[i]);
        max = fv_mpi_max(max, g->call->offsets[i]);
        keys = fv_mpi_max(keys, fv_mpi_kv_len(g->call, i));
    }
    fv_mpi_sees(d, b->query, b->queries, min, max, &low, &high);
    high = fv_mpi_min(high, keys);
    fv_mpi_header header = {.status = FOVEA_OK};
    for (int64_t i = 0, all = segments_of(plan, plan->rank); i < all; i++) {
        const int64_t key = fv_mpi_global(&plan->routes.keys, plan->rank, i * FV_MPI_SEGMENT);
        if (key + FV_MPI_SEGMENT <= low || key >= high)
            continue;
        header.first = header.count == 0 ? i : header.first;
        header.count = i + 1 - header.first;
    }
    return header;
}

/* Segments first, first + threads, ... of a thread. */
typedef struct job {
    const gather *g;
    const fv_mpi_block *block;
    fovea_tensor q;
    char *memory;
    int64_t stride;
    fovea_status *status; /* [stride] */
} job;

static fovea_status segment(const job *j, int64_t index, fv_mpi_scratch scratch) {
    const fovea_mpi_attention_plan *plan = j->g->call->plan;
    const fv_mpi_block *b = j->block;
    const fv_mpi_header *header = (void *)j->memory;
    const int64_t key = fv_mpi_global(&plan->routes.keys, plan->rank, (header->first + index) * FV_MPI_SEGMENT);
    const int64_t keys = fv_mpi_min(FV_MPI_SEGMENT, plan->problem.desc.kv_len - key);
    fovea_attention_state *state = state_at(j->g, b, j->memory, index);
    const fovea_status status = fv_mpi_new_state(plan, b, keys, state, &state);
    return status == FOVEA_OK ? fv_mpi_piece(j->g->call, b, &j->q, key, keys, state, NULL, NULL, scratch) : status;
}

static void thread(void *arg, int64_t index) {
    const job *j = arg;
    const fv_mpi_header *header = (void *)j->memory;
    for (int64_t i = index; i < header->count && j->status[index] == FOVEA_OK; i += j->stride)
        j->status[index] = segment(j, i, j->g->scratch[index]);
}

/* Fills this rank's partials of a block. */
static void compute(gather *g, int64_t block, fovea_status *statuses) {
    fv_mpi_call *call = g->call;
    const fovea_mpi_attention_plan *plan = call->plan;
    const fv_mpi_block *b = &plan->routes.blocks[block];
    job j = {.g = g, .block = b, .memory = partials_at(g, block, plan->rank)->memory, .status = statuses};
    fv_mpi_header *header = (void *)j.memory;
    *header = (fv_mpi_header){.status = call->status};
    if (call->status != FOVEA_OK)
        return;
    *header = visible_segments(g, b);
    j.q = fv_mpi_view(call, b, &call->args.q);
    if (b->home != plan->rank && travels(plan))
        j.q = fv_mpi_packed(call, b, &j.q, g->q[block]);
    j.stride = fv_mpi_clamp(header->count, 1, plan->threads);
    memset(statuses, 0, (size_t)j.stride * sizeof *statuses);
    call->status = fovea_parallel(plan->ctx, j.stride, thread, &j);
    for (int64_t i = 0; i < j.stride && call->status == FOVEA_OK; i++)
        call->status = statuses[i];
    header->status = call->status;
}

static void merge(gather *g, int64_t block) {
    fv_mpi_call *call = g->call;
    const fovea_mpi_attention_plan *plan = call->plan;
    const fv_mpi_block *b = &plan->routes.blocks[block];
    for (int rank = 0; rank < plan->ranks; rank++) {
        partials *from = partials_at(g, block, rank);
        MPI_Wait(&from->request, MPI_STATUS_IGNORE);
        const fv_mpi_header *header = (void *)from->memory;
        if (header->status != FOVEA_OK && call->status == FOVEA_OK)
            call->status = (fovea_status)header->status;
    }
    if (call->status != FOVEA_OK)
        return;
    fovea_attention_state *all = NULL;
    for (int64_t key = 0; key < plan->problem.desc.kv_len && call->status == FOVEA_OK; key += FV_MPI_SEGMENT) {
        char *memory = partials_at(g, block, fv_mpi_owner(&plan->routes.keys, key))->memory;
        const fv_mpi_header *header = (void *)memory;
        const int64_t index = fv_mpi_local(&plan->routes.keys, key) / FV_MPI_SEGMENT - header->first;
        if (index < 0 || index >= header->count)
            continue;
        fovea_attention_state *state = state_at(g, b, memory, index);
        if (all)
            call->status = fv_mpi_from_core(fovea_attention_state_merge(all, state));
        else
            all = state;
    }
    if (!all) /* no query sees a key */
        call->status = fv_mpi_new_state(plan, b, 0, state_at(g, b, partials_at(g, block, plan->rank)->memory, 0), &all);
    const fovea_tensor q = fv_mpi_view(call, b, &call->args.q), out = fv_mpi_view(call, b, &call->args.out);
    const fovea_tensor lse = fv_mpi_view(call, b, &call->args.lse);
    if (call->status == FOVEA_OK)
        call->status = fv_mpi_piece(call, b, &q, 0, 0, all, &out, lse.data ? &lse : NULL, g->scratch[0]);
}

/* Posts receives, and sends q to ranks with keys. */
static void begin(gather *g) {
    fv_mpi_call *call = g->call;
    const fovea_mpi_attention_plan *plan = call->plan;
    for (int64_t i = 0; i < plan->routes.block_count; i++) {
        const fv_mpi_block *b = &plan->routes.blocks[i];
        const int64_t q_bytes = fv_mpi_q_bytes(&plan->problem, b);
        const bool mine = b->home == plan->rank;
        for (int rank = 0; rank < plan->ranks; rank++) {
            partials *p = partials_at(g, i, rank);
            *p = (partials){fv_mpi_take(call, partials_bytes(plan, b, rank)), MPI_REQUEST_NULL};
            if (mine && rank != plan->rank)
                MPI_Irecv(p->memory, (int)(partials_bytes(plan, b, rank) / FV_MPI_UNIT), plan->unit, rank,
                          FV_MPI_TAG_PARTIALS, plan->comm, &p->request);
        }
        g->q[i] = travels(plan) ? fv_mpi_take(call, q_bytes) : NULL;
        if (!travels(plan))
            continue;
        MPI_Request *requests = &g->q_requests[i * plan->ranks];
        if (!mine) {
            MPI_Irecv(g->q[i], (int)(q_bytes / FV_MPI_UNIT), plan->unit, b->home, FV_MPI_TAG_Q, plan->comm, requests);
            continue;
        }
        const fovea_tensor q = fv_mpi_view(call, b, &call->args.q);
        const fovea_tensor to = fv_mpi_packed(call, b, &q, g->q[i]);
        fv_mpi_copy(&q, &to);
        for (int rank = 0; rank < plan->ranks; rank++)
            if (rank != plan->rank)
                MPI_Isend(g->q[i], (int)(q_bytes / FV_MPI_UNIT), plan->unit, rank, FV_MPI_TAG_Q, plan->comm,
                          &requests[rank]);
    }
}

void fv_mpi_gather(fv_mpi_call *call) {
    const fovea_mpi_attention_plan *plan = call->plan;
    const int64_t blocks = plan->routes.block_count, ranks = plan->ranks;
    gather g = {.call = call};
    g.scratch = fv_mpi_take(call, plan->threads * (int64_t)sizeof(fv_mpi_scratch));
    for (int i = 0; i < plan->threads; i++)
        g.scratch[i] = fv_mpi_scratch_take(call);
    g.partials = fv_mpi_take(call, blocks * ranks * (int64_t)sizeof(partials));
    g.q = fv_mpi_take(call, blocks * (int64_t)sizeof(char *));
    g.q_requests = fv_mpi_take(call, blocks * ranks * (int64_t)sizeof(MPI_Request));
    fovea_status *statuses = fv_mpi_take(call, plan->threads * (int64_t)sizeof(fovea_status));
    for (int64_t i = 0; i < blocks * ranks; i++)
        g.q_requests[i] = MPI_REQUEST_NULL;
    begin(&g);
    for (int away = 1; away <= plan->ranks; away++) /* others' blocks, then this rank's */
        for (int64_t i = 0; i < blocks; i++) {
            const fv_mpi_block *b = &plan->routes.blocks[i];
            if (b->home != (plan->rank + away) % plan->ranks)
                continue;
            partials *p = partials_at(&g, i, plan->rank);
            if (b->home != plan->rank && travels(plan))
                MPI_Wait(&g.q_requests[i * ranks], MPI_STATUS_IGNORE);
            compute(&g, i, statuses);
            if (b->home == plan->rank)
                continue;
            const fv_mpi_header *header = (void *)p->memory;
            MPI_Isend(header, 1 + (int)(header->count * fv_mpi_state_of(plan, b) / FV_MPI_UNIT), plan->unit, b->home,
                      FV_MPI_TAG_PARTIALS, plan->comm, &p->request);
        }
    for (int64_t i = 0; i < blocks; i++)
        if (plan->routes.blocks[i].home == plan->rank)
            merge(&g, i);
    for (int64_t i = 0; i < blocks; i++) {
        if (plan->routes.blocks[i].home != plan->rank)
            MPI_Wait(&partials_at(&g, i, plan->rank)->request, MPI_STATUS_IGNORE);
        for (int64_t rank = 0; rank < ranks; rank++)
            MPI_Wait(&g.q_requests[i * ranks + rank], MPI_STATUS_IGNORE);
    }
}
