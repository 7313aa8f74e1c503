#include "groups.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

MPI_Comm comm = MPI_COMM_NULL;
int rank, ranks;
int64_t seed = 1;
static int64_t passed, failed;

int group_begin(int *argc, char ***argv, int level) {
    MPI_Init_thread(argc, argv, level, &level);
    return level;
}

fovea_context *group_context(fovea_isa isa, int threads) {
    fovea_context *ctx = NULL;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.isa = isa;
    options.threads = threads;
    options.threads_backend = FOVEA_THREADS_POOL;
    options.tuning_file = "";
    if (fovea_context_create(&options, &ctx) != FOVEA_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return ctx;
}

bool group_next(void) {
    enum { MOST = 7, ROUNDS = 3 };
    static const char colours[ROUNDS][MOST] = {{0, 1, 0, 2, 0, 1, 0}, {0, 1, 2, 0, 1, 0, 1}, {0}};
    static int round = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    round = round < 0 && ranks != MOST ? ROUNDS - 1 : round + 1;
    if (round >= ROUNDS)
        return false;
    MPI_Comm_split(MPI_COMM_WORLD, ranks == MOST ? colours[round][rank] : 0, -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    return true;
}

bool check(bool ok, const char *format, ...) {
    passed += ok;
    failed += !ok;
    if (!ok && failed < 5) {
        va_list values;
        va_start(values, format);
        fprintf(stderr, "rank %d of %d, seed %" PRId64 ": ", rank, ranks, seed);
        vfprintf(stderr, format, values);
        fputc('\n', stderr);
        va_end(values);
    }
    return ok;
}

int group_report(const char *what) {
    int64_t all[2];
    const int64_t mine[2] = {passed, failed};
    MPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        printf("%s over up to %d ranks, seed %" PRId64 ": %" PRId64 " passed, %" PRId64 " failed, 0 skipped\n", what,
               ranks, seed, all[0], all[1]);
    MPI_Finalize();
    return all[1] > 0;
}
