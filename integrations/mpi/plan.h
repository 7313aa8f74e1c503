/* A plan: what all ranks agreed on, the core's plans for its pieces, and this rank's steps. */
#ifndef FV_MPI_PLAN_H
#define FV_MPI_PLAN_H

#include "steps.h"

/* A plan of the core for blocks of this shape. keys 0: finishes. */
typedef struct fv_mpi_shape {
    int64_t queries, heads, keys;
    fovea_attention_plan *plan;
} fv_mpi_shape;

struct fovea_mpi_attention_plan {
    MPI_Comm comm;
    MPI_Datatype unit; /* FV_MPI_UNIT bytes */
    int rank, ranks;
    const fovea_context *ctx;
    fovea_context *one; /* GATHER: of one thread, for segments side by side */
    int threads;
    fv_mpi_problem problem;
    fv_mpi_choice choice;
    fv_mpi_routes routes;
    double seconds;
    fovea_attention_plan *check; /* of this rank's tensors: checks arguments */
    fv_mpi_shape *shapes;
    int64_t shape_count;
    size_t attention_bytes; /* the most workspace of check and shapes */
    void *workspace;        /* of executions that are given none */
    /* PASS */
    fv_mpi_steps steps;
    int64_t slot_bytes, out_bytes; /* headers included: of a block under way, of a result */
};

/* A plan of the core for a part of the problem. */
fovea_status fv_mpi_core_plan(fovea_mpi_attention_plan *plan, const fovea_context *ctx, int64_t queries,
                              int64_t q_heads, int64_t kv_heads, int64_t keys, fovea_attention_plan **core);
/* Makes the plan that fv_mpi_plan_of() finds. */
fovea_status fv_mpi_add_shape(fovea_mpi_attention_plan *plan, const fv_mpi_block *block, int64_t keys);
fovea_attention_plan *fv_mpi_plan_of(const fovea_mpi_attention_plan *plan, const fv_mpi_block *block, int64_t keys);
/* Bytes of the state of a block, as in memory and in messages. */
int64_t fv_mpi_state_of(const fovea_mpi_attention_plan *plan, const fv_mpi_block *block);
/* An empty state for keys of a block, in memory of fv_mpi_state_of() bytes. */
fovea_status fv_mpi_new_state(const fovea_mpi_attention_plan *plan, const fv_mpi_block *block, int64_t keys,
                              void *memory, fovea_attention_state **state);

#endif
