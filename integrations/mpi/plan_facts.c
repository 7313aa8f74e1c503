/* What a plan tells, and its end. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>

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
