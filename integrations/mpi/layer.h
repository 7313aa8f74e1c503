/* What group.c, columns.c, linear.c, layer.c and layer_execute.c share: messages that gather columns, views of columns
 * of weights, and a linear map without its vote. */
#ifndef FV_MPI_LAYER_H
#define FV_MPI_LAYER_H

#include "fovea_mpi_layer.h"
#include "plan.h"

struct fovea_mpi_group {
    MPI_Comm comm;
    MPI_Datatype unit; /* FV_MPI_UNIT bytes */
    int rank, ranks;
    char *memory; /* aligned to FV_MPI_UNIT within owned */
    void *owned;
    size_t size;
    int *counts, *places; /* [ranks] of a message, in units */
};

/* ---------------------------------------------------------------------------------------------------------- group.c --
 * */

/* Columns of rows that the ranks have: rank r those from bounds[r] to bounds[r + 1]. rows 0: nothing is sent. */
typedef struct fv_mpi_section {
    const int64_t *bounds; /* [ranks + 1] */
    int64_t rows, element; /* element: bytes of one */
} fv_mpi_section;

/* FOVEA_OK, or an error: all ranks' messages, with so many bytes in count sections, would be larger than MPI takes. */
fovea_status fv_mpi_message_check(const fovea_mpi_group *g, double bytes, int64_t count);
/* Bytes of all ranks' messages: of each a header, then its part [rows][columns] of each section. */
int64_t fv_mpi_message_bytes(const fovea_mpi_group *g, const fv_mpi_section *sections, int64_t count);
/* A rank's part of a section in the messages that begin at all. */
char *fv_mpi_message_at(const fovea_mpi_group *g, char *all, const fv_mpi_section *sections, int64_t count, int rank,
                        int64_t section);
/* Sends this rank's with its status, and receives all others; their size was checked before. The same status on all
 * ranks. */
fovea_status fv_mpi_message_exchange(fovea_mpi_group *g, char *all, const fv_mpi_section *sections, int64_t count,
                                     fovea_status status);
/* A section into a tensor whose heads side by side are its columns. wanted: [rows], which are written; NULL: all. */
void fv_mpi_message_read(const fovea_mpi_group *g, char *all, const fv_mpi_section *sections, int64_t count,
                         int64_t section, const fovea_tensor *whole, const unsigned char *wanted);

/* [ranks + 1] bounds of fovea_mpi_share(). */
void fv_mpi_bounds(const fovea_mpi_group *g, int64_t columns, int64_t multiple, int64_t *bounds);

/* FOVEA_OK, or ranks without a context or with other choices of FASTEST: into a digest. */
uint64_t fv_mpi_context_digest(uint64_t digest, const fovea_context *ctx);

static inline int64_t fv_mpi_element(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

/* -------------------------------------------------------------------------------------------------------- columns.c --
 * */

/* Columns of a matrix, with what had to be copied for that. */
typedef struct fv_mpi_slice {
    fovea_matrix matrix;
    fovea_quantisation quantisation;
    void *words, *zeros; /* or NULL */
} fv_mpi_slice;

/* Columns [first, first + count) of m. head_stride != 0: columns are heads of so many, that far from each other. */
fovea_status fv_mpi_slice_columns(const fovea_matrix *m, int64_t first, int64_t count, int64_t head,
                                  int64_t head_stride, fv_mpi_slice *slice);
void fv_mpi_slice_free(fv_mpi_slice *slice);

/* --------------------------------------------------------------------------------------------------------- linear.c --
 * */

struct fovea_mpi_linear {
    fovea_mpi_group *group;
    fovea_linear *map;                     /* of this rank's columns; NULL: it has none */
    fovea_linear *check;                   /* of one input channel and all columns: checks outputs */
    int64_t in, parts, outputs, own_count; /* outputs: 1 of a gated map, else parts */
    int64_t *own;                          /* [own_count] outputs of which this rank has columns */
    int64_t *bounds;                       /* [parts][ranks + 1] */
    fovea_dtype dtype, y_dtype, residual_dtype;
};

/* The call without a vote, in memory of fovea_mpi_linear_memory() bytes. wanted: rows of y that are written, or NULL.
 * status: of this rank before. */
fovea_status fv_mpi_linear_run(fovea_mpi_linear *l, const fovea_linear_args *args, char *memory,
                               const unsigned char *wanted, fovea_status status);
/* Of arguments, but for x's memory. lens: [batch] zeros. */
fovea_status fv_mpi_linear_check(const fovea_mpi_linear *l, const fovea_linear_args *args, const int64_t *zeros);

/* ---------------------------------------------------------------------------------------------------------- layer.c --
 * */

enum { FV_MPI_Q, FV_MPI_K, FV_MPI_V, FV_MPI_ROLES };

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
