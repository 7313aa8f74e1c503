/* Which rank has which position of an axis. */
#ifndef FV_MPI_LAYOUT_H
#define FV_MPI_LAYOUT_H

#include "units.h"

/* An axis of total positions in stripes of width, dealt back and forth to ranks. */
typedef struct fv_mpi_layout {
    int64_t total, width;
    int ranks;
} fv_mpi_layout;

int fv_mpi_owner(const fv_mpi_layout *layout, int64_t position);
int64_t fv_mpi_held(const fv_mpi_layout *layout, int rank);
/* The index of a position among those of its owner. */
int64_t fv_mpi_local(const fv_mpi_layout *layout, int64_t position);
/* The position that a rank has at an index. */
int64_t fv_mpi_global(const fv_mpi_layout *layout, int rank, int64_t local);
/* Positions from this one on that its owner holds without a gap. */
int64_t fv_mpi_run(const fv_mpi_layout *layout, int64_t position);
int64_t fv_mpi_stripe(const fv_mpi_layout *layout, int rank, int64_t index, int64_t *first);

#endif
