/* Groups of ranks (fovea_mpi_group.h): shares, and columns gathered by one MPI_Allgatherv(). */
#include "agree.h"
#include "fovea_mpi_group.h"

#include <stdlib.h>
#include <string.h>

struct fovea_mpi_group {
    MPI_Comm comm;
    MPI_Datatype unit; /* FV_MPI_UNIT bytes */
    int rank, ranks;
    char *memory; /* aligned to FV_MPI_UNIT within owned */
    void *owned;
    size_t size;
    int *counts, *places; /* [ranks] of a message, in units */
    int64_t *bounds;      /* [ranks + 1] */
};

fovea_status fovea_mpi_group_create(MPI_Comm comm, fovea_mpi_group **group) {
    if (group)
        *group = NULL;
    MPI_Comm own;
    fovea_status status;
    fovea_mpi_group *g = fv_mpi_open(comm, sizeof *g, group, "group", &own, &status);
    if (!g)
        return status;
    g->comm = own;
    MPI_Comm_rank(own, &g->rank);
    MPI_Comm_size(own, &g->ranks);
    MPI_Type_contiguous(FV_MPI_UNIT, MPI_BYTE, &g->unit);
    MPI_Type_commit(&g->unit);
    g->counts = calloc((size_t)g->ranks, sizeof *g->counts);
    g->places = calloc((size_t)g->ranks, sizeof *g->places);
    g->bounds = calloc((size_t)g->ranks + 1, sizeof *g->bounds);
    status = fv_mpi_agree(own, g->counts && g->places && g->bounds ? FOVEA_OK : fv_mpi_fail_memory(), 0, "groups");
    if (status == FOVEA_OK)
        *group = g;
    else
        fovea_mpi_group_destroy(g);
    return status;
}

void fovea_mpi_group_destroy(fovea_mpi_group *g) {
    if (!g)
        return;
    free(g->owned);
    free(g->counts);
    free(g->places);
    free(g->bounds);
    MPI_Type_free(&g->unit);
    MPI_Comm_free(&g->comm);
    free(g);
}

/* -------------------------------------------------------------------------------------------------------- shares -- */

static int64_t bound(int64_t units, int ranks, int rank) { return units / ranks * rank + units % ranks * rank / ranks; }

int64_t fovea_mpi_share(const fovea_mpi_group *g, int rank, int64_t columns, int64_t multiple, int64_t *first) {
    if (first)
        *first = 0;
    if (!g || !first || rank < 0 || rank >= g->ranks || columns < 1 || multiple < 0)
        return 0;
    const int64_t by = multiple ? multiple : FOVEA_MPI_COLUMNS, units = fv_mpi_ceil(columns, by);
    *first = fv_mpi_min(bound(units, g->ranks, rank) * by, columns);
    return fv_mpi_min(bound(units, g->ranks, rank + 1) * by, columns) - *first;
}

fovea_mpi_heads fovea_mpi_share_heads(const fovea_mpi_group *g, int rank, int64_t q_heads, int64_t kv_heads) {
    fovea_mpi_heads h = {0};
    if (!g || rank < 0 || rank >= g->ranks || kv_heads < 1 || q_heads < kv_heads || q_heads % kv_heads != 0)
        return h;
    const int64_t of_each = q_heads / kv_heads;
    if (kv_heads >= g->ranks) {
        h.kv_first = bound(kv_heads, g->ranks, rank);
        h.kv_count = bound(kv_heads, g->ranks, rank + 1) - h.kv_first;
        h.q_first = h.kv_first * of_each;
        h.q_count = h.kv_count * of_each;
        return h;
    }
    const int heads = (int)kv_heads;
    while (bound(g->ranks, heads, (int)h.kv_first + 1) <= rank)
        h.kv_first++;
    const int64_t begin = bound(g->ranks, heads, (int)h.kv_first), end = bound(g->ranks, heads, (int)h.kv_first + 1);
    const int of = (int)(end - begin), at = (int)(rank - begin); /* ranks of this key head */
    h.q_first = h.kv_first * of_each + bound(of_each, of, at);
    h.q_count = bound(of_each, of, at + 1) - bound(of_each, of, at);
    h.kv_count = h.q_count > 0;
    return h;
}

/* ------------------------------------------------------------------------------------------------------ messages -- */

/* Sets bounds, counts and places of a message. *bytes: of all ranks'. */
static fovea_status lay_out(fovea_mpi_group *g, int64_t rows, int64_t columns, int64_t element, const int64_t *bounds,
                            size_t *bytes) {
    if (rows < 0 || columns < 1 || element < 1 || element > 16 || rows > INT32_MAX || columns > INT32_MAX)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "%lld rows of %lld columns of %lld bytes cannot be gathered",
                           (long long)rows, (long long)columns, (long long)element);
    const double units = (double)g->ranks * FV_MPI_UNIT; /* parts rounded up */
    if ((double)rows * (double)columns * (double)element + units > (double)FV_MPI_MESSAGES_MOST)
        return fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED, "messages would have more than 2^37 bytes: take fewer rows");
    int64_t *cuts = g->bounds;
    for (int rank = 0; rank < g->ranks; rank++)
        fovea_mpi_share(g, rank, columns, 0, &cuts[rank]);
    cuts[g->ranks] = columns;
    if (bounds)
        memcpy(cuts, bounds, (size_t)(g->ranks + 1) * sizeof *cuts);
    int place = 0;
    for (int rank = 0; rank < g->ranks; rank++) {
        if (cuts[0] != 0 || cuts[rank] > cuts[rank + 1] || cuts[rank + 1] > columns || cuts[g->ranks] != columns)
            return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "bounds must go from 0 to the number of columns");
        g->places[rank] = place;
        g->counts[rank] = (int)fv_mpi_ceil(rows * (cuts[rank + 1] - cuts[rank]) * element, FV_MPI_UNIT);
        place += g->counts[rank];
    }
    *bytes = (size_t)place * FV_MPI_UNIT;
    return FOVEA_OK;
}

static fovea_status reserve(fovea_mpi_group *g, size_t bytes) {
    if (bytes <= g->size)
        return FOVEA_OK;
    void *owned = malloc(bytes + FV_MPI_UNIT);
    if (!owned)
        return fv_mpi_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for messages of %zu bytes", bytes);
    free(g->owned);
    g->owned = owned;
    g->memory = (char *)owned + (FV_MPI_UNIT - (uintptr_t)owned % FV_MPI_UNIT) % FV_MPI_UNIT;
    g->size = bytes;
    return FOVEA_OK;
}

/* A rank's columns in the message. */
static char *part_of(const fovea_mpi_group *g, int rank) { return g->memory + (int64_t)g->places[rank] * FV_MPI_UNIT; }

fovea_status fovea_mpi_gather_columns(fovea_mpi_group *g, fovea_status mine, int64_t rows, int64_t columns,
                                      int64_t element, const int64_t *bounds, const void *own, void *whole) {
    if (!g)
        return fv_mpi_fail_null("group");
    size_t bytes = 0;
    fovea_status status = fv_mpi_from_core(mine);
    if (status == FOVEA_OK)
        status = lay_out(g, rows, columns, element, bounds, &bytes);
    const int64_t *cuts = g->bounds;
    if (status == FOVEA_OK && rows > 0 && (!whole || (!own && cuts[g->rank] < cuts[g->rank + 1])))
        status = fv_mpi_fail_null(whole ? "own" : "whole");
    if (status == FOVEA_OK)
        status = reserve(g, bytes);
    const int64_t sizes[] = {rows, columns, element};
    const uint64_t digest = fv_mpi_digest(0, sizes, sizeof sizes);
    status = fv_mpi_agree(g->comm, status, fv_mpi_digest(digest, cuts, (size_t)(g->ranks + 1) * sizeof *cuts),
                          "rows, columns, element_bytes or bounds");
    if (status != FOVEA_OK || rows == 0)
        return status;
    const int64_t own_row = (cuts[g->rank + 1] - cuts[g->rank]) * element;
    if (own_row > 0)
        memcpy(part_of(g, g->rank), own, (size_t)(rows * own_row));
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, g->memory, g->counts, g->places, g->unit, g->comm);
    for (int rank = 0; rank < g->ranks; rank++) {
        const char *from = part_of(g, rank);
        const int64_t row_bytes = (cuts[rank + 1] - cuts[rank]) * element;
        for (int64_t row = 0; row < rows && row_bytes > 0; row++, from += row_bytes)
            memcpy((char *)whole + (row * columns + cuts[rank]) * element, from, (size_t)row_bytes);
    }
    return FOVEA_OK;
}
