/* Errors: this thread's sentence, and one status of all ranks. A vote is one reduction of three numbers, which may
 * overlap with work. If a rank failed, it then broadcasts its sentence. */
#include "agree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 512 };
static _Thread_local char sentence[SENTENCE];

const char *fovea_mpi_error_detail(void) { return sentence; }

fovea_status fv_mpi_fail(fovea_status status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    return status;
}

fovea_status fv_mpi_fail_null(const char *name) { return fv_mpi_fail(FOVEA_ERROR_NULL, "%s is NULL", name); }

fovea_status fv_mpi_fail_memory(void) { return fv_mpi_fail(FOVEA_ERROR_OUT_OF_MEMORY, "out of memory"); }

fovea_status fv_mpi_from_core(fovea_status status) {
    return status == FOVEA_OK ? FOVEA_OK : fv_mpi_fail(status, "%s", fovea_error_detail());
}

fovea_status fv_mpi_refuse(const fv_mpi_refusal *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (all[i].asked)
            return fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED, "attention over ranks does not take %s", all[i].what);
    return FOVEA_OK;
}

/* FNV-1a. */
uint64_t fv_mpi_digest(uint64_t digest, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ byte[i]) * 0x100000001b3ULL;
    return digest;
}

/* The greatest of the first numbers is a status, of the lowest rank that has it. The digests agree if the greatest is
 * the least: of the last numbers, which are complements. Digests of ranks that failed do not count. */
void fv_mpi_vote_begin(fv_mpi_vote *vote, MPI_Comm comm, fovea_status status, uint64_t digest) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    const int64_t number = (int64_t)(digest >> 2);
    vote->comm = comm;
    vote->mine[0] = status == FOVEA_OK ? 0 : ((int64_t)status << 32) + INT32_MAX - rank;
    vote->mine[1] = status == FOVEA_OK ? number : INT64_MIN;
    vote->mine[2] = status == FOVEA_OK ? -number : INT64_MIN;
    MPI_Iallreduce(vote->mine, vote->all, 3, MPI_INT64_T, MPI_MAX, comm, &vote->request);
}

fovea_status fv_mpi_vote_end(fv_mpi_vote *vote, const char *what) {
    MPI_Wait(&vote->request, MPI_STATUS_IGNORE);
    if (vote->all[0] == 0) {
        if (vote->all[1] == -vote->all[2])
            return FOVEA_OK;
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "%s differ between ranks", what);
    }
    const int failed = (int)(INT32_MAX - (vote->all[0] & INT32_MAX));
    char of_failed[SENTENCE];
    memcpy(of_failed, sentence, sizeof of_failed);
    MPI_Bcast(of_failed, sizeof of_failed, MPI_CHAR, failed, vote->comm);
    return fv_mpi_fail((fovea_status)(vote->all[0] >> 32), "rank %d: %.*s", failed, SENTENCE - 32, of_failed);
}

fovea_status fv_mpi_agree(MPI_Comm comm, fovea_status status, uint64_t digest, const char *what) {
    fv_mpi_vote vote;
    fv_mpi_vote_begin(&vote, comm, status, digest);
    return fv_mpi_vote_end(&vote, what);
}

static fovea_status check_comm(MPI_Comm comm) {
    int running = 0, ended = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (!running || ended)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "MPI is not initialized, or has ended");
    return comm != MPI_COMM_NULL ? FOVEA_OK : fv_mpi_fail(FOVEA_ERROR_NULL, "comm is MPI_COMM_NULL");
}

void *fv_mpi_open(MPI_Comm comm, size_t bytes, const void *object, const char *name, MPI_Comm *own,
                  fovea_status *status) {
    *status = check_comm(comm);
    if (*status != FOVEA_OK)
        return NULL;
    MPI_Comm_dup(comm, own);
    MPI_Comm_set_errhandler(*own, MPI_ERRORS_ARE_FATAL);
    void *made = calloc(1, bytes);
    *status = fv_mpi_agree(*own, !object ? fv_mpi_fail_null(name) : !made ? fv_mpi_fail_memory() : FOVEA_OK, 0, name);
    if (*status == FOVEA_OK)
        return made;
    MPI_Comm_free(own);
    free(made);
    return NULL;
}
