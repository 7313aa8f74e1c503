/* Groups of ranks, and messages that gather columns. */
#ifndef FV_MPI_GROUP_H
#define FV_MPI_GROUP_H

#include "fovea_mpi_layer.h"
#include "units.h"

struct fovea_mpi_group {
    MPI_Comm comm;
    MPI_Datatype unit; /* FV_MPI_UNIT bytes */
    int rank, ranks;
    char *memory; /* aligned to FV_MPI_UNIT within owned */
    void *owned;
    size_t size;
    int *counts, *places; /* [ranks] of a message, in units */
    int64_t *bounds;      /* [ranks + 1] of fovea_mpi_gather_columns() */
};

/* Columns of rows that the ranks have: rank r those from bounds[r] to bounds[r + 1]. rows 0: nothing is sent. */
typedef struct fv_mpi_section {
    const int64_t *bounds; /* [ranks + 1] */
    int64_t rows, element; /* element: bytes of one */
} fv_mpi_section;

/* An error if all ranks' messages, with these bytes in count sections, are larger than MPI allows. */
fovea_status fv_mpi_message_check(const fovea_mpi_group *g, double bytes, int64_t count);

/* The messages of all ranks, one after another: a header, then the rank's part [rows][columns] of each section. */
typedef struct fv_mpi_message {
    fovea_mpi_group *group;
    char *all;
    const fv_mpi_section *sections;
    int64_t count;
} fv_mpi_message;
int64_t fv_mpi_message_bytes(const fv_mpi_message *message);
/* A rank's part of a section. */
char *fv_mpi_message_at(const fv_mpi_message *message, int rank, int64_t section);
/* Sends this rank's with its status, and receives all others; their size was checked before. The same status on all
 * ranks. */
fovea_status fv_mpi_message_exchange(const fv_mpi_message *message, fovea_status status);
/* A section into a tensor whose heads side by side are its columns. written: [rows], which are; NULL: all. */
void fv_mpi_message_read(const fv_mpi_message *message, int64_t section, const fovea_tensor *whole,
                         const unsigned char *written);

/* [ranks + 1] bounds of fovea_mpi_share(). */
void fv_mpi_bounds(const fovea_mpi_group *g, int64_t columns, int64_t multiple, int64_t *bounds);

/* FOVEA_OK, or ranks without a context or with other choices of FASTEST: into a digest. */
uint64_t fv_mpi_context_digest(uint64_t digest, const fovea_context *ctx);

#endif
