/* Views of columns of weights. */
#ifndef FV_MPI_COLUMNS_H
#define FV_MPI_COLUMNS_H

#include "fovea/fovea.h"

/* Columns of a matrix, with what had to be copied for that. */
typedef struct fv_mpi_slice {
    fovea_matrix matrix;
    fovea_quantisation quantisation;
    void *words, *zeros; /* or NULL */
} fv_mpi_slice;

/* Columns [first, first + count) of m. head_stride != 0: groups of head columns, head_stride apart. */
fovea_status fv_mpi_slice_columns(const fovea_matrix *m, int64_t first, int64_t count, int64_t head,
                                  int64_t head_stride, fv_mpi_slice *slice);
void fv_mpi_slice_free(fv_mpi_slice *slice);

#endif
