/* Groups of ranks: shares of columns and heads, columns gathered, and the linear map that fovea_mpi_group.h shows: the
 * bits of one rank. Run by mpirun with any number of ranks, which have different tiers and threads. */
#include "case.h"
#include "fovea_mpi_group.h"
#include "groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, COLUMNS = 203, IN = 64, MULTIPLE = 8, ELEMENT = 16, RANKS = 64, CASES = 40 };

static fovea_context *ctx;
static fovea_mpi_group *group;

/* -------------------------------------------------------------------------------------------------------- shares -- */

/* Shares follow each other in whole units, and differ by at most one. Returns bounds[ranks + 1]. */
static const int64_t *bounds_of(int64_t columns, int64_t multiple) {
    static int64_t bounds[RANKS + 1];
    const int64_t unit = multiple > 0 ? multiple : FOVEA_MPI_COLUMNS;
    int64_t next = 0, least = INT64_MAX, most = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t count = fovea_mpi_share(group, i, columns, multiple, &bounds[i]),
                      units = (count + unit - 1) / unit;
        check(count >= 0 && bounds[i] == next && (next % unit == 0 || next == columns),
              "rank %d has columns %" PRId64 " + %" PRId64 " of %" PRId64, i, bounds[i], count, columns);
        next += count;
        least = units < least ? units : least;
        most = units > most ? units : most;
    }
    check(next == columns && most - least <= 1, "ranks have %" PRId64 " of %" PRId64 " columns", next, columns);
    bounds[ranks] = columns;
    return bounds;
}

static void test_shares(void) {
    static const int64_t columns[] = {1, 8, 31, 33, COLUMNS, 4096}, multiples[] = {0, 1, MULTIPLE, 64};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++)
            bounds_of(columns[i], multiples[j]);
    int64_t first = 9;
    check(fovea_mpi_share(group, ranks, 8, 1, &first) == 0 && first == 0, "a rank that is not there");
    check(fovea_mpi_share(group, 0, 8, -1, &first) == 0 && fovea_mpi_share(NULL, 0, 8, 1, &first) == 0, "bad shares");
}

/* Heads of all ranks follow each other, and each key head is with its query heads. */
static void test_heads(void) {
    static const int64_t all[][2] = {{8, 8}, {8, 2}, {3, 1}, {2, 2}, {12, 6}, {1, 1}};
    for (int k = 0; k < 6; k++) {
        const int64_t of_each = all[k][0] / all[k][1];
        int64_t next = 0;
        for (int i = 0; i < ranks; i++) {
            const fovea_mpi_heads h = fovea_mpi_share_heads(group, i, all[k][0], all[k][1]);
            const int64_t end = (h.q_first + h.q_count + of_each - 1) / of_each;
            check(h.q_first == next &&
                      (h.q_count == 0 ? h.kv_count == 0
                                      : h.kv_first == h.q_first / of_each && h.kv_first + h.kv_count == end),
                  "rank %d has heads %" PRId64 " + %" PRId64 ", key heads %" PRId64 " + %" PRId64, i, h.q_first,
                  h.q_count, h.kv_first, h.kv_count);
            next += h.q_count;
        }
        check(next == all[k][0], "ranks have %" PRId64 " heads of %" PRId64, next, all[k][0]);
    }
    check(fovea_mpi_share_heads(group, 0, 8, 3).q_count == 0, "3 key heads of 8");
    check(fovea_mpi_share_heads(group, ranks, 8, 8).q_count == 0, "heads of a rank that is not there");
}

/* ----------------------------------------------------------------------------------------------------- gathering -- */

/* The same status on all ranks, with a sentence of the guilty one; guilty < 0: of none. */
static void expect(fovea_status status, fovea_status want, int guilty, const char *words) {
    char name[32];
    snprintf(name, sizeof name, "rank %d: ", guilty);
    check(status == want && (want == FOVEA_OK || strstr(fovea_mpi_error_detail(), words) != NULL) &&
              (guilty < 0 || strncmp(fovea_mpi_error_detail(), name, strlen(name)) == 0),
          "%s, not %s with '%s' of rank %d (%s)", fovea_status_name(status), fovea_status_name(want), words, guilty,
          fovea_mpi_error_detail());
}

/* Elements of 1 to 16 bytes, by any bounds or the default ones; nothing behind whole is written. */
static void test_gather(rng *r) {
    static unsigned char own[ROWS * COLUMNS * ELEMENT], want[sizeof own], whole[sizeof own];
    const int64_t rows = rng_between(r, 0, ROWS), columns = rng_between(r, 1, COLUMNS), e = rng_between(r, 1, ELEMENT);
    const bool given = rng_below(r, 4) > 0;
    int64_t bounds[RANKS + 1] = {0};
    for (int i = 1; i < ranks; i++)
        bounds[i] = rng_between(r, bounds[i - 1], columns);
    bounds[ranks] = columns;
    if (!given)
        memcpy(bounds, bounds_of(columns, 0), sizeof bounds);
    for (int64_t i = 0; i < rows * columns * e; i++)
        want[i] = (unsigned char)rng_below(r, 256);
    memset(want + rows * columns * e, 0xa5, sizeof want - (size_t)(rows * columns * e));
    memset(whole, 0xa5, sizeof whole);
    const int64_t bytes = (bounds[rank + 1] - bounds[rank]) * e;
    for (int64_t row = 0; row < rows; row++)
        memcpy(own + row * bytes, want + (row * columns + bounds[rank]) * e, (size_t)bytes);
    expect(fovea_mpi_gather_columns(group, FOVEA_OK, rows, columns, e, given ? bounds : NULL, bytes > 0 ? own : NULL,
                                    rows > 0 ? whole : NULL),
           FOVEA_OK, -1, "");
    check(memcmp(whole, want, sizeof whole) == 0, "%" PRId64 " rows of %" PRId64 " columns of %" PRId64 " bytes differ",
          rows, columns, e);
}

/* Arguments that differ on one rank, though each is valid by itself. */
static void test_others(void) {
    static const float own[ROWS * COLUMNS];
    static float whole[ROWS * COLUMNS];
    for (int guilty = 0; guilty < ranks && ranks > 1; guilty++)
        for (int bad = 0; bad < 4; bad++) {
            const int me = rank == guilty;
            int64_t bounds[RANKS + 1];
            memcpy(bounds, bounds_of(COLUMNS, 0), sizeof bounds);
            bounds[1] += me && bad == 3 ? -1 : 0;
            const int64_t columns = COLUMNS - (me && bad == 1), element = 4 - (me && bad == 2);
            expect(fovea_mpi_gather_columns(group, FOVEA_OK, ROWS - (me && bad == 0), columns, element,
                                            bad == 3 ? bounds : NULL, own, whole),
                   FOVEA_ERROR_ARGUMENT, -1, "rows, columns, element_bytes or bounds differ");
        }
}

/* ---------------------------------------------------------------------------------------------------- linear map -- */

static fovea_status multiply(const float *weights, int64_t columns, float *x, float *out) {
    fovea_linear *map = NULL;
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = IN;
    desc.part.weight = fovea_matrix_out_in(weights, FOVEA_DTYPE_F32, columns, IN);
    const fovea_tensor y = fovea_tensor_bthd(out, FOVEA_DTYPE_F32, 1, ROWS, 1, columns);
    args.x = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, 1, ROWS, 1, IN);
    args.y = &y;
    fovea_status status = fovea_linear_create(ctx, &desc, &map);
    if (status == FOVEA_OK)
        status = fovea_linear_apply(ctx, map, &args, NULL, 0);
    fovea_linear_destroy(map);
    return status;
}

/* Each rank in turn lacks x; at last none does. */
static void test_linear(rng *r) {
    static float weights[COLUMNS * IN], x[ROWS * IN], alone[ROWS * COLUMNS], own[ROWS * COLUMNS], whole[ROWS * COLUMNS];
    for (int i = 0; i < COLUMNS * IN; i++)
        weights[i] = (float)rng_below(r, 2001) * 1e-3f - 1;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)rng_below(r, 2001) * 1e-3f - 1;
    check(multiply(weights, COLUMNS, x, alone) == FOVEA_OK, "alone: %s", fovea_error_detail());
    const int64_t *bounds = bounds_of(COLUMNS, MULTIPLE), first = bounds[rank], count = bounds[rank + 1] - first;
    for (int guilty = 0; guilty <= ranks; guilty++) {
        const fovea_status mine =
            count > 0 ? multiply(weights + first * IN, count, rank == guilty ? NULL : x, own) : FOVEA_OK;
        const bool bad = guilty < ranks && bounds[guilty] < bounds[guilty + 1];
        expect(fovea_mpi_gather_columns(group, mine, ROWS, COLUMNS, sizeof *own, bounds, own, whole),
               bad ? FOVEA_ERROR_NULL : FOVEA_OK, bad ? guilty : -1, "x");
    }
    check(memcmp(whole, alone, sizeof whole) == 0, "a linear map differs");
}

int main(int argc, char **argv) {
    group_begin(&argc, &argv, MPI_THREAD_FUNNELED);
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        seed = atoll(argv[2]);
    while (group_next()) {
        ctx = group_context(rank % 3 == 1 ? FOVEA_ISA_SCALAR : FOVEA_ISA_BEST, 1 + rank % 2);
        if (fovea_mpi_group_create(comm, &group) != FOVEA_OK)
            MPI_Abort(comm, 1);
        rng r = {(uint64_t)(seed + ranks)};
        test_shares();
        test_heads();
        for (int i = 0; i < CASES; i++)
            test_gather(&r);
        test_others();
        test_linear(&r);
        fovea_mpi_group_destroy(group);
        fovea_context_destroy(ctx);
    }
    return group_report("groups");
}
