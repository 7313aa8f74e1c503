/* A layer by heads. */
#ifndef FV_MPI_LAYER_H
#define FV_MPI_LAYER_H

#include "linear.h"

struct fovea_mpi_mha {
    fovea_mpi_group *group;
    fovea_mha *own;            /* attention of this rank's heads, without W^O; NULL: it has none */
    fovea_mpi_linear *out;     /* or NULL: the heads are the result */
    fovea_attention_desc desc; /* of all ranks, types resolved */
    int64_t most_rows;
    int64_t *q_bounds, *head_bounds; /* [ranks + 1] of query heads, and of their channels */
    fovea_mpi_heads heads;           /* of this rank */
    fovea_dtype heads_dtype;
};

#endif
