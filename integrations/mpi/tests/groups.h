/* Many numbers of ranks in one mpirun: a program over 7 ranks runs its tests over groups of 4, 2 and 1, then of 3, 3
 * and 1, then over all; one over fewer, over all. Groups take scattered ranks, in descending order.
 *     group_begin(&argc, &argv, MPI_THREAD_FUNNELED);     or another level; returns what MPI provides
 *     while (group_next()) tests over comm;
 *     return group_report("mpi"); */
#ifndef FOVEA_MPI_GROUPS_H
#define FOVEA_MPI_GROUPS_H

#include <fovea/fovea.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

extern MPI_Comm comm;   /* this rank's group */
extern int rank, ranks; /* of comm */
extern int64_t seed;    /* of random numbers; default 1 */

int group_begin(int *argc, char ***argv, int level);
bool group_next(void);

/* A context of the library's own threads, without a tuning file; ends all ranks if there is none. */
fovea_context *group_context(fovea_isa isa, int threads);

/* Counts; of a rank's first failures the sentence is printed. */
bool check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The last line, of all ranks together, and MPI's end; returns the exit status. */
int group_report(const char *what);

#endif
