/* The cost model, and the order of work. */
#ifndef FV_MPI_SCHEDULE_H
#define FV_MPI_SCHEDULE_H

#include "route.h"

/* Work in an order that is the same on all ranks: a block starts (stop -1: home sends q), or makes a stop. */
typedef struct fv_mpi_op {
    int64_t block, stop; /* stop: index among the block's */
} fv_mpi_op;

/* Simulates PASS. Returns predicted seconds, < 0: out of memory. ops: NULL, or room for block_count + stop_count;
 * those of *op_count are written, in order. */
double fv_mpi_schedule(const fv_mpi_problem *problem, const fv_mpi_routes *routes, int64_t in_flight, fv_mpi_op *ops,
                       int64_t *op_count);
/* Likewise for GATHER. */
double fv_mpi_gather_seconds(const fv_mpi_problem *problem, const fv_mpi_routes *routes);

#endif
