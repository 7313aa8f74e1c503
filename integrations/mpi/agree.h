/* Errors and agreement: this thread's sentence, and one status of all ranks. */
#ifndef FV_MPI_AGREE_H
#define FV_MPI_AGREE_H

#include "fovea_mpi.h"

#include <stddef.h>
#include <stdint.h>

/* Sets this thread's sentence. Returns status. */
__attribute__((format(printf, 2, 3))) fovea_status fv_mpi_fail(fovea_status status, const char *format, ...);
fovea_status fv_mpi_fail_null(const char *name);
fovea_status fv_mpi_fail_memory(void);
/* FOVEA_OK, or status with the sentence of the core's last failure. */
fovea_status fv_mpi_from_core(fovea_status status);

fovea_status fv_mpi_check_comm(MPI_Comm comm);

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

/* The end of what, where a digest has the arithmetic that FASTEST takes. */
#define FV_MPI_FASTEST ", or what FOVEA_ARITHMETIC_FASTEST takes on their CPUs (name that arithmetic instead),"

uint64_t fv_mpi_digest(uint64_t digest, const void *data, size_t bytes);

#endif
