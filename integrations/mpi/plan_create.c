/* Creating plans: what all ranks agree on, and this rank's part of it. */
#include "agree.h"
#include "desc.h"
#include "heuristics.h"
#include "plan.h"

#include <math.h>
#include <stdlib.h>

/* Rank 0's, with defaults. */
static void agree_on_costs(fovea_mpi_attention_plan *p) {
    fovea_mpi_costs *c = &p->problem.costs;
    double *fields[] = {&c->flops, &c->key_bytes, &c->call, &c->latency, &c->bandwidth, &c->copy}, all[6];
    const double defaults[] = {1.2e11 * p->threads, 1.05e10 * p->threads, 5e-6, 5e-6, 4e9, 4e9};
    for (int i = 0; i < 6; i++)
        all[i] = *fields[i] > 0 ? *fields[i] : defaults[i];
    MPI_Bcast(all, 6, MPI_DOUBLE, 0, p->comm);
    for (int i = 0; i < 6; i++)
        *fields[i] = all[i];
}

/* Every rank merges, and each of its segments is whole but for the last of all. */
static fovea_status plan_gather(fovea_mpi_attention_plan *p) {
    const int64_t kv_len = p->problem.desc.kv_len, last = kv_len % FV_MPI_SEGMENT;
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < p->routes.block_count && status == FOVEA_OK; i++) {
        const fv_mpi_block *b = &p->routes.blocks[i];
        status = fv_mpi_add_shape(p, b, 0);
        if (status == FOVEA_OK && kv_len >= FV_MPI_SEGMENT)
            status = fv_mpi_add_shape(p, b, FV_MPI_SEGMENT);
        if (status == FOVEA_OK && last)
            status = fv_mpi_add_shape(p, b, last);
    }
    return status;
}

static fovea_status plan_pass(fovea_mpi_attention_plan *p) {
    const fv_mpi_routes *r = &p->routes;
    if (!fv_mpi_steps_make(&p->problem, r, p->choice.in_flight, p->rank, &p->steps))
        return fv_mpi_fail_memory();
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < p->steps.count && status == FOVEA_OK; i++) {
        const fv_mpi_block *b = &r->blocks[p->steps.at[i].block];
        if (p->steps.at[i].kind == FV_MPI_VISIT)
            status = fv_mpi_add_shape(p, b, r->stops[b->stop + p->steps.at[i].stop].keys);
    }
    for (int64_t i = 0; i < p->steps.count && status == FOVEA_OK; i++) {
        const fv_mpi_block *b = &r->blocks[p->steps.at[i].block];
        const int64_t q = p->problem.queries == FOVEA_MPI_QUERIES_DEALT ? fv_mpi_q_bytes(&p->problem, b) : 0;
        p->slot_bytes = fv_mpi_max(p->slot_bytes, 2 * FV_MPI_UNIT + q + fv_mpi_state_of(p, b));
        p->out_bytes = fv_mpi_max(p->out_bytes, FV_MPI_UNIT + fv_mpi_out_bytes(&p->problem, b));
    }
    return status;
}

/* Bytes, which int64_t may not hold. */
static double largest_message(const fovea_mpi_attention_plan *p) {
    double most = 0, shared = (double)(p->ranks * FV_MPI_UNIT);
    for (int64_t i = 0; i < p->routes.block_count; i++) {
        const fv_mpi_block *b = &p->routes.blocks[i];
        const int64_t states =
            p->choice.method == FOVEA_MPI_METHOD_PASS
                ? 1
                : fv_mpi_ceil(fv_mpi_held(&p->routes.keys, 0) + p->routes.keys.width, FV_MPI_SEGMENT);
        most = fmax(most, (double)fv_mpi_q_bytes(&p->problem, b) +
                              2.0 * (double)states * (double)fv_mpi_state_bytes(&p->problem, b));
        shared += (double)fv_mpi_out_bytes(&p->problem, b);
    }
    return p->problem.queries == FOVEA_MPI_QUERIES_REPLICATED ? fmax(most, shared) : most;
}

/* Local, once all ranks have the same description. */
static fovea_status build(fovea_mpi_attention_plan *p, const fovea_mpi_attention_desc *m) {
    const fovea_attention_desc *d = &p->problem.desc;
    const bool full = d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT || d->causal == FOVEA_CAUSAL_OFFSET;
    const int64_t offset = full ? d->kv_len - d->q_len : 0;
    p->problem.min_offset = m->min_offset == FOVEA_MPI_OFFSET_FULL ? offset : m->min_offset;
    p->problem.max_offset = m->max_offset == FOVEA_MPI_OFFSET_FULL ? offset : m->max_offset;
    if (p->problem.min_offset > p->problem.max_offset)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "min_offset is %lld, but max_offset %lld",
                           (long long)p->problem.min_offset, (long long)p->problem.max_offset);
    p->problem.queries = m->queries;
    const fv_mpi_choice given = {m->stripe_segments, m->query_stripe,
                                 m->block_queries,   d->page_keys ? d->kv_heads : m->block_kv_heads,
                                 m->in_flight,       m->method};
    if (!fv_mpi_choose(&p->problem, &given, &p->choice, &p->seconds) ||
        !fv_mpi_routes_make(&p->problem, &p->choice, &p->routes))
        return fv_mpi_fail_memory();
    if (largest_message(p) > (double)FV_MPI_MESSAGES_MOST)
        return fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED, "a message would have more than 2^37 bytes: take smaller blocks");
    fovea_status status = FOVEA_OK;
    if (p->choice.method == FOVEA_MPI_METHOD_GATHER && p->threads > 1) {
        fovea_context_facts info;
        fovea_context_facts_init(&info);
        fovea_context_info(p->ctx, &info);
        fovea_context_options options;
        fovea_context_options_init(&options);
        options.threads = 1;
        options.isa = info.isa;
        status = fovea_context_create(&options, &p->one);
        if (status != FOVEA_OK)
            return fv_mpi_from_core(status);
    }
    status = fv_mpi_core_plan(p, p->ctx, fovea_mpi_attention_queries(p, p->rank), d->q_heads, d->kv_heads,
                              d->page_keys ? 0 : fovea_mpi_attention_keys(p, p->rank), &p->check);
    if (status == FOVEA_OK)
        status = p->choice.method == FOVEA_MPI_METHOD_PASS ? plan_pass(p) : plan_gather(p);
    if (status != FOVEA_OK)
        return status;
    if (p->choice.method == FOVEA_MPI_METHOD_GATHER) { /* merging states takes the core's default context */
        float one;
        status = fovea_exp_f32(1, &(float){0}, &one);
        if (status != FOVEA_OK)
            return fv_mpi_from_core(status);
    }
    const size_t bytes = fovea_mpi_attention_plan_workspace_size(p);
    p->workspace = malloc(bytes);
    return p->workspace ? FOVEA_OK
                        : fv_mpi_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", bytes);
}

fovea_status fovea_mpi_attention_plan_create(MPI_Comm comm, const fovea_context *ctx,
                                             const fovea_mpi_attention_desc *desc, fovea_mpi_attention_plan **plan) {
    if (plan)
        *plan = NULL;
    MPI_Comm own;
    fovea_status status;
    fovea_mpi_attention_plan *p = fv_mpi_open(comm, sizeof *p, plan, "plan", &own, &status);
    if (!p)
        return status;
    p->comm = own;
    MPI_Comm_rank(own, &p->rank);
    MPI_Comm_size(own, &p->ranks);
    MPI_Type_contiguous(FV_MPI_UNIT, MPI_BYTE, &p->unit);
    MPI_Type_commit(&p->unit);
    p->problem.ranks = p->ranks;
    p->ctx = ctx;
    fovea_mpi_attention_desc m;
    status = fv_mpi_read_desc(ctx, desc, &p->problem, &m);
    status =
        fv_mpi_agree(own, status, status == FOVEA_OK ? fv_mpi_desc_digest(&p->problem.desc, &m) : 0,
                     "fields of desc or of desc.attention, or the arithmetic that FOVEA_ARITHMETIC_FASTEST selects on "
                     "their CPUs (name one instead),");
    if (status == FOVEA_OK) {
        fovea_context_facts info;
        fovea_context_facts_init(&info);
        fovea_context_info(ctx, &info);
        p->threads = info.threads;
        agree_on_costs(p);
        status = build(p, &m);
        const fv_mpi_choice *c = &p->choice;
        const int64_t chosen[] = {c->stripe_segments, c->query_stripe, c->block_queries,
                                  c->block_kv_heads,  c->in_flight,    c->method};
        status = fv_mpi_agree(own, status, fv_mpi_digest(0, chosen, sizeof chosen), "choices of the cost model");
    }
    if (status == FOVEA_OK)
        *plan = p;
    else
        fovea_mpi_attention_plan_destroy(p);
    return status;
}
