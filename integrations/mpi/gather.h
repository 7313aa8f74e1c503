/* GATHER: partial results are merged. */
#ifndef FV_MPI_GATHER_H
#define FV_MPI_GATHER_H

#include "call.h"

/* Bytes of the workspace, and the work. Results are then in args.out of each block's home. */
int64_t fv_mpi_gather_bytes(const fovea_mpi_attention_plan *plan);
void fv_mpi_gather(fv_mpi_call *call);

#endif
