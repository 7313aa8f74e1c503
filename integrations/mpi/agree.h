/* Errors and agreement: this thread's sentence, and one status of all ranks. */
#ifndef FV_MPI_AGREE_H
#define FV_MPI_AGREE_H

#include "fovea_mpi.h"
#include "units.h"

#include <stddef.h>

/* Sets this thread's sentence. Returns status. */
__attribute__((format(printf, 2, 3))) fovea_status fv_mpi_fail(fovea_status status, const char *format, ...);
fovea_status fv_mpi_fail_null(const char *name);
fovea_status fv_mpi_fail_memory(void);
/* FOVEA_OK, or status with the sentence of the core's last failure. */
fovea_status fv_mpi_from_core(fovea_status status);

/* FOVEA_ERROR_UNSUPPORTED if any of all is asked for: "attention over ranks does not take what". */
typedef struct fv_mpi_refusal {
    const char *what;
    bool asked;
} fv_mpi_refusal;
fovea_status fv_mpi_refuse(const fv_mpi_refusal *all, size_t count);

/* Allocates an object over the ranks of comm, filled with zeros, and duplicates comm. Returns NULL, with the same
 * *status on all ranks, if MPI is not running, memory is short or object, the caller's pointer to it, is NULL. */
void *fv_mpi_open(MPI_Comm comm, size_t bytes, const void *object, const char *name, MPI_Comm *own,
                  fovea_status *status);

/* One status of all ranks, and whether all have the same digest. begin, then work, then end, which all ranks do. end
 * returns the same status everywhere, with the sentence of the rank that failed. what: what the digest is of. */
typedef struct fv_mpi_vote {
    MPI_Comm comm;
    MPI_Request request;
    int64_t mine[3], all[3];
} fv_mpi_vote;
void fv_mpi_vote_begin(fv_mpi_vote *vote, MPI_Comm comm, fovea_status status, uint64_t digest);
fovea_status fv_mpi_vote_end(fv_mpi_vote *vote, const char *what);
/* Both, without work between them. */
fovea_status fv_mpi_agree(MPI_Comm comm, fovea_status status, uint64_t digest, const char *what);

/* Begins a message, whose sender has this status. Nothing follows if it is not FOVEA_OK. */
typedef struct fv_mpi_header {
    int64_t status;
    int64_t first, count; /* GATHER: which of the sender's segments follow */
    int64_t unused[5];
} fv_mpi_header;
_Static_assert(sizeof(fv_mpi_header) == FV_MPI_UNIT, "a header is a unit");

uint64_t fv_mpi_digest(uint64_t digest, const void *data, size_t bytes);

#endif
