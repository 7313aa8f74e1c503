/* Chooses the fields that the caller leaves open, by the cost model. */
#ifndef FV_MPI_HEURISTICS_H
#define FV_MPI_HEURISTICS_H

#include "route.h"

/* Fills the fields that are 0 in given, and predicts the seconds of an execution. False: out of memory. */
bool fv_mpi_choose(const fv_mpi_problem *problem, const fv_mpi_choice *given, fv_mpi_choice *choice, double *seconds);

#endif
