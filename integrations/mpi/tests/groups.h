/* Many numbers of ranks in one mpirun: a program over 7 ranks runs its tests over groups of 4, 2 and 1, then of 3, 3 and
 * 1, then over all; one over fewer, over all. Groups take scattered ranks, in descending order.
 *     while (group_next()) tests over comm; */
#ifndef FOVEA_MPI_GROUPS_H
#define FOVEA_MPI_GROUPS_H

#include <mpi.h>
#include <stdbool.h>

extern MPI_Comm comm; /* this rank's group */

bool group_next(void);

#endif
