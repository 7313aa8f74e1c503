/* ranks.h. Heads and columns are dealt as libfovea_mpi deals them, in small units for small models. */
#include "ranks.h"

#include "run.h"

#include "fovea_mpi_group.h"

#include <stdlib.h>
#include <unistd.h>

enum { MULTIPLE = 8 };

static model_ranks self;
static fovea_mpi_group *group;

static int64_t columns(void *arg, int rank, int64_t all, int64_t *first) {
    return fovea_mpi_share(arg, rank, all, MULTIPLE, first);
}

static void heads(void *arg, int rank, int64_t q_heads, int64_t kv_heads, int64_t q[2], int64_t kv[2]) {
    const fovea_mpi_heads h = fovea_mpi_share_heads(arg, rank, q_heads, kv_heads);
    q[0] = h.q_first;
    q[1] = h.q_count;
    kv[0] = h.kv_first;
    kv[1] = h.kv_count;
}

static fovea_status gather(void *arg, fovea_status before, int64_t rows, int64_t all, int64_t element,
                           const int64_t *bounds, const void *own, void *whole) {
    return fovea_mpi_gather_columns(arg, before, rows, all, element, bounds, own, whole);
}

/* Others would wait for a rank that ends alone. */
static void end_all(void) {
    if (group != NULL)
        MPI_Abort(MPI_COMM_WORLD, run_status);
}

const model_ranks *ranks_begin(FILE **complaints, const char **why) {
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (fovea_mpi_group_create(MPI_COMM_WORLD, &group) != FOVEA_OK || atexit(end_all) != 0) {
        *why = fovea_mpi_error_detail();
        return NULL;
    }
    self = (model_ranks){
        .arg = group, .columns = columns, .heads = heads, .gather = gather, .detail = fovea_mpi_error_detail};
    MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self.ranks);
    if (self.rank > 0) {
        *complaints = fdopen(dup(STDERR_FILENO), "w");
        if (*complaints == NULL || freopen("/dev/null", "w", stdout) == NULL ||
            freopen("/dev/null", "w", stderr) == NULL) {
            *why = "--mpi: standard output cannot be closed";
            return NULL;
        }
    }
    return &self;
}

void ranks_end(void) {
    if (group == NULL)
        return;
    fovea_mpi_group_destroy(group);
    group = NULL;
    MPI_Finalize();
}
