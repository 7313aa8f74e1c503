/* PASS: what one rank does, in order. */
#ifndef FV_MPI_STEPS_H
#define FV_MPI_STEPS_H

#include "route.h"

/* A rank's part of an op of the schedule. */
typedef enum fv_mpi_step_kind {
    FV_MPI_SEND_Q,     /* to the first stop */
    FV_MPI_EXPECT,     /* what comes for a stop here */
    FV_MPI_VISIT,      /* compute, and send on */
    FV_MPI_EXPECT_OUT, /* the result of a block that is at home here */
} fv_mpi_step_kind;
typedef struct fv_mpi_step {
    fv_mpi_step_kind kind;
    int64_t block, stop;
} fv_mpi_step;

typedef struct fv_mpi_steps {
    fv_mpi_step *at; /* to be freed, whatever was returned */
    int64_t count, slots;
} fv_mpi_steps;

/* FV_MPI_SPARE_SLOTS: for messages that are still leaving; FV_MPI_OUT_SLOTS: results under way. */
enum { FV_MPI_SPARE_SLOTS = 2, FV_MPI_OUT_SLOTS = 4 };

/* False: out of memory. */
bool fv_mpi_steps_make(const fv_mpi_problem *problem, const fv_mpi_routes *routes, int64_t in_flight, int rank,
                       fv_mpi_steps *steps);

#endif
