/* Many numbers of ranks in one mpirun: a program over 7 ranks runs its tests over groups of 4, 2 and 1, then of 3, 3
 * and 1, then over all; one over fewer, over all. Groups take scattered ranks, in descending order.
 *     while (group_next()) tests over comm;
 *     return group_report("mpi"); */
#ifndef FOVEA_MPI_GROUPS_H
#define FOVEA_MPI_GROUPS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

extern MPI_Comm comm;   /* this rank's group */
extern int rank, ranks; /* of comm */
extern int64_t seed;    /* of random numbers; default 1 */

bool group_next(void);

/* Counts; of a rank's first failures the sentence is printed. */
bool check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The last line, of all ranks together, and MPI's end; returns the exit status. */
int group_report(const char *what);

#endif
