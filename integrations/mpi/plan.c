/* Plans: the core's plans for pieces, what a plan tells, and its end. */
#include "plan.h"
#include "agree.h"

#include <stdio.h>
#include <stdlib.h>

/* Over a cache pieces are single segments. */
static int64_t keys_at_once(const fovea_mpi_attention_plan *p, int64_t keys) {
    return p->problem.desc.page_keys && keys ? FV_MPI_SEGMENT : keys;
}

fovea_attention_plan *fv_mpi_plan_of(const fovea_mpi_attention_plan *p, const fv_mpi_block *b, int64_t keys) {
    keys = keys_at_once(p, keys);
    for (int64_t i = 0; i < p->shape_count; i++)
        if (p->shapes[i].queries == b->queries && p->shapes[i].heads == b->heads && p->shapes[i].keys == keys)
            return p->shapes[i].plan;
    return NULL;
}

int64_t fv_mpi_state_of(const fovea_mpi_attention_plan *p, const fv_mpi_block *b) {
    for (int64_t i = 0; i < p->shape_count; i++)
        if (p->shapes[i].queries == b->queries && p->shapes[i].heads == b->heads)
            return fv_mpi_units((int64_t)fovea_attention_plan_state_size(p->shapes[i].plan));
    return 0;
}

fovea_status fv_mpi_new_state(const fovea_mpi_attention_plan *p, const fv_mpi_block *b, int64_t keys, void *memory,
                              fovea_attention_state **state) {
    return fv_mpi_from_core(
        fovea_attention_state_init(fv_mpi_plan_of(p, b, keys), memory, (size_t)fv_mpi_state_of(p, b), state));
}

fovea_status fv_mpi_core_plan(fovea_mpi_attention_plan *p, const fovea_context *ctx, int64_t queries, int64_t q_heads,
                              int64_t kv_heads, int64_t keys, fovea_attention_plan **core) {
    fovea_attention_desc d = p->problem.desc;
    d.q_len = queries;
    d.kv_len = keys;
    d.q_heads = q_heads;
    d.kv_heads = kv_heads;
    d.causal = d.causal == FOVEA_CAUSAL_NONE ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_OFFSET;
    const fovea_status status = fovea_attention_plan_create(ctx, &d, core);
    const size_t bytes = status == FOVEA_OK ? fovea_attention_plan_workspace_size(*core) : 0;
    p->attention_bytes = bytes > p->attention_bytes ? bytes : p->attention_bytes;
    return fv_mpi_from_core(status);
}

fovea_status fv_mpi_add_shape(fovea_mpi_attention_plan *p, const fv_mpi_block *b, int64_t keys) {
    keys = keys_at_once(p, keys);
    if (fv_mpi_plan_of(p, b, keys))
        return FOVEA_OK;
    fv_mpi_shape *more = realloc(p->shapes, (size_t)(p->shape_count + 1) * sizeof *more);
    if (!more)
        return fv_mpi_fail_memory();
    p->shapes = more;
    fv_mpi_shape *s = &p->shapes[p->shape_count];
    *s = (fv_mpi_shape){b->queries, b->heads, keys, NULL};
    const fovea_status status =
        fv_mpi_core_plan(p, p->one ? p->one : p->ctx, b->queries, b->heads * fv_mpi_heads_per_key(&p->problem.desc),
                         b->heads, keys, &s->plan);
    p->shape_count += status == FOVEA_OK;
    return status;
}

void fovea_mpi_attention_plan_destroy(fovea_mpi_attention_plan *p) {
    if (!p)
        return;
    for (int64_t i = 0; i < p->shape_count; i++)
        fovea_attention_plan_destroy(p->shapes[i].plan);
    fovea_attention_plan_destroy(p->check);
    fovea_context_destroy(p->one);
    fv_mpi_routes_free(&p->routes);
    free(p->shapes);
    free(p->steps.at);
    free(p->workspace);
    MPI_Type_free(&p->unit);
    MPI_Comm_free(&p->comm);
    free(p);
}

int64_t fovea_mpi_attention_keys(const fovea_mpi_attention_plan *p, int rank) {
    return p ? fv_mpi_held(&p->routes.keys, rank) : 0;
}

int64_t fovea_mpi_attention_key_stripe(const fovea_mpi_attention_plan *p, int rank, int64_t index, int64_t *first) {
    return p && first ? fv_mpi_stripe(&p->routes.keys, rank, index, first) : 0;
}

int64_t fovea_mpi_attention_queries(const fovea_mpi_attention_plan *p, int rank) {
    if (!p || rank < 0 || rank >= p->ranks)
        return 0;
    return p->problem.queries == FOVEA_MPI_QUERIES_DEALT ? fv_mpi_held(&p->routes.tokens, rank) : p->problem.desc.q_len;
}

int64_t fovea_mpi_attention_query_stripe(const fovea_mpi_attention_plan *p, int rank, int64_t index, int64_t *first) {
    if (!p || !first || rank < 0 || rank >= p->ranks)
        return 0;
    if (p->problem.queries == FOVEA_MPI_QUERIES_DEALT)
        return fv_mpi_stripe(&p->routes.tokens, rank, index, first);
    *first = 0;
    return index == 0 ? p->problem.desc.q_len : 0;
}

double fovea_mpi_attention_plan_seconds(const fovea_mpi_attention_plan *p) { return p ? p->seconds : 0; }

size_t fovea_mpi_attention_plan_describe(const fovea_mpi_attention_plan *p, char *text, size_t size) {
    if (!p)
        return 0;
    const bool pass = p->choice.method == FOVEA_MPI_METHOD_PASS;
    const int n = snprintf(
        text, size,
        "%s over %d ranks, queries %s\n"
        "stripes of %lld segments of 256 keys; rank %d has %lld keys, %lld queries\n"
        "%lld blocks of %lld queries, %lld key heads; %lld stops; %lld under way; %lld slots of %lld bytes\n"
        "predicted: %.6f s\n",
        pass ? "pass" : "gather", p->ranks, p->problem.queries == FOVEA_MPI_QUERIES_DEALT ? "dealt" : "replicated",
        (long long)p->choice.stripe_segments, p->rank, (long long)fovea_mpi_attention_keys(p, p->rank),
        (long long)fovea_mpi_attention_queries(p, p->rank), (long long)p->routes.block_count,
        (long long)p->choice.block_queries, (long long)p->choice.block_kv_heads, (long long)p->routes.stop_count,
        (long long)(pass ? p->choice.in_flight : 0), (long long)p->steps.slots, (long long)p->slot_bytes, p->seconds);
    return n < 0 ? 0 : (size_t)n;
}
