/* A linear map by output columns, and its execution without a vote. */
#ifndef FV_MPI_LINEAR_H
#define FV_MPI_LINEAR_H

#include "group.h"

struct fovea_mpi_linear {
    fovea_mpi_group *group;
    fovea_linear *map;                     /* of this rank's columns; NULL: it has none */
    fovea_linear *check;                   /* of one input channel and all columns: checks outputs */
    int64_t in, parts, outputs, own_count; /* outputs: 1 of a gated map, else parts */
    int64_t *own;                          /* [own_count] outputs of which this rank has columns */
    int64_t *bounds;                       /* [parts][ranks + 1] */
    fovea_dtype dtype, y_dtype, residual_dtype;
};

/* [ranks + 1] of a part's columns. */
static inline const int64_t *fv_mpi_linear_bounds(const fovea_mpi_linear *l, int64_t part) {
    return l->bounds + part * (l->group->ranks + 1);
}

/* The call without a vote, in memory of fovea_mpi_linear_memory() bytes. written: rows of y that are written, or NULL.
 * status: of this rank before. */
fovea_status fv_mpi_linear_run(fovea_mpi_linear *l, const fovea_linear_args *args, char *memory,
                               const unsigned char *written, fovea_status status);
/* Checks arguments, except x's memory. zeros: [batch]. memory: as for fv_mpi_linear_run(). */
fovea_status fv_mpi_linear_check(const fovea_mpi_linear *l, const fovea_linear_args *args, const int64_t *zeros,
                                 char *memory);

#endif
