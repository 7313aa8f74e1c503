/* fovea-generate --mpi: a model over ranks of MPI. ranks_mpi.c is built where MPI is found, else ranks_none.c. */
#ifndef GENERATE_RANKS_H
#define GENERATE_RANKS_H

#include "model.h"

#include <stdio.h>

/* Begins, or returns NULL and why not. Ranks but the first are silent from then on: *complaints is where their failures
 * go. If the program ends before ranks_end(), it ends on all ranks. */
const model_ranks *ranks_begin(FILE **complaints, const char **why);
void ranks_end(void); /* nothing if it has not begun */

#endif
