/* Descriptions of plans. */
#ifndef FV_MPI_DESC_H
#define FV_MPI_DESC_H

#include "route.h"

/* Checks given, and reads it into *read, and into desc and costs of a problem. */
fovea_status fv_mpi_read_desc(const fovea_context *ctx, const fovea_mpi_attention_desc *given, fv_mpi_problem *problem,
                              fovea_mpi_attention_desc *read);
/* A digest of what ranks must have alike. */
uint64_t fv_mpi_desc_digest(const fovea_attention_desc *desc, const fovea_mpi_attention_desc *over);

#endif
