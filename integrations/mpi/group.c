/* Groups of ranks (fovea_mpi_layer.h), shares, and messages that gather columns: every rank sends a header with its
 * status, then its columns, in one MPI_Allgatherv(). */
#include "group.h"
#include "agree.h"

#include <stdlib.h>
#include <string.h>

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

size_t fovea_mpi_group_memory(const fovea_mpi_group *g) { return g ? g->size : 0; }

fovea_status fovea_mpi_group_reserve(fovea_mpi_group *g, size_t bytes) {
    if (!g)
        return fv_mpi_fail_null("group");
    if (bytes <= g->size)
        return FOVEA_OK;
    void *owned = bytes < SIZE_MAX - FV_MPI_UNIT ? malloc(bytes + FV_MPI_UNIT) : NULL;
    if (!owned)
        return fv_mpi_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for messages of %zu bytes", bytes);
    free(g->owned);
    g->owned = owned;
    g->memory = (char *)owned + (FV_MPI_UNIT - (uintptr_t)owned % FV_MPI_UNIT) % FV_MPI_UNIT;
    g->size = bytes;
    return FOVEA_OK;
}

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

void fv_mpi_bounds(const fovea_mpi_group *g, int64_t columns, int64_t multiple, int64_t *bounds) {
    for (int rank = 0; rank < g->ranks; rank++)
        fovea_mpi_share(g, rank, columns, multiple, &bounds[rank]);
    bounds[g->ranks] = columns;
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

uint64_t fv_mpi_context_digest(uint64_t digest, const fovea_context *ctx) {
    fovea_info info;
    fovea_info_init(&info);
    fovea_context_info(ctx, &info);
    const int64_t fastest[] = {info.fastest_attention, info.fastest_linear};
    return fv_mpi_digest(digest, fastest, sizeof fastest);
}

static int64_t part_bytes(const fv_mpi_section *s, int rank) {
    return fv_mpi_units(s->rows * (s->bounds[rank + 1] - s->bounds[rank]) * s->element);
}

static int64_t rank_bytes(const fv_mpi_message *m, int rank) {
    int64_t bytes = FV_MPI_UNIT;
    for (int64_t i = 0; i < m->count; i++)
        bytes += part_bytes(&m->sections[i], rank);
    return bytes;
}

fovea_status fv_mpi_message_check(const fovea_mpi_group *g, double bytes, int64_t count) {
    const double units = (double)g->ranks * (double)(count + 1) * FV_MPI_UNIT; /* headers, and parts rounded up */
    return bytes + units <= (double)FV_MPI_MESSAGES_MOST
               ? FOVEA_OK
               : fv_mpi_fail(FOVEA_ERROR_UNSUPPORTED, "messages would have more than 2^37 bytes: take fewer rows");
}

int64_t fv_mpi_message_bytes(const fv_mpi_message *m) {
    int64_t bytes = 0;
    for (int rank = 0; rank < m->group->ranks; rank++)
        bytes += rank_bytes(m, rank);
    return bytes;
}

char *fv_mpi_message_at(const fv_mpi_message *m, int rank, int64_t section) {
    char *at = m->all + FV_MPI_UNIT;
    for (int r = 0; r < rank; r++)
        at += rank_bytes(m, r);
    for (int64_t i = 0; i < section; i++)
        at += part_bytes(&m->sections[i], rank);
    return at;
}

fovea_status fv_mpi_message_exchange(const fv_mpi_message *m, fovea_status status) {
    const fovea_mpi_group *g = m->group;
    for (int rank = 0, place = 0; rank < g->ranks; place += g->counts[rank++]) {
        g->places[rank] = place;
        g->counts[rank] = (int)(rank_bytes(m, rank) / FV_MPI_UNIT);
    }
    return fv_mpi_exchange(g->comm, g->unit, m->all, g->counts, g->places, status);
}

void fv_mpi_message_read(const fv_mpi_message *m, int64_t section, const fovea_tensor *whole,
                         const unsigned char *written) {
    const fv_mpi_section *s = &m->sections[section];
    const int64_t channels = whole->shape[3], tokens = whole->shape[2];
    for (int rank = 0; rank < m->group->ranks; rank++) {
        const char *from = fv_mpi_message_at(m, rank, section);
        const int64_t columns = s->bounds[rank + 1] - s->bounds[rank];
        for (int64_t row = 0; row < s->rows && columns > 0; row++, from += columns * s->element) {
            if (written && !written[row])
                continue;
            const int64_t at = row / tokens * whole->stride[0] + row % tokens * whole->stride[2];
            for (int64_t done = 0, n; done < columns; done += n) {
                const int64_t column = s->bounds[rank] + done, head = column / channels, c = column % channels;
                n = fv_mpi_min(columns - done, channels - c);
                memcpy((char *)whole->data + (at + head * whole->stride[1] + c) * s->element, from + done * s->element,
                       (size_t)(n * s->element));
            }
        }
    }
}

fovea_status fovea_mpi_gather_columns(fovea_mpi_group *g, fovea_status mine, int64_t rows, int64_t columns,
                                      int64_t element, const int64_t *bounds, const void *own, void *whole) {
    if (!g)
        return fv_mpi_fail_null("group");
    int64_t *cuts = g->bounds;
    const fv_mpi_section section = {cuts, rows, element};
    fv_mpi_message message = {g, NULL, &section, 1};
    fovea_status status = mine == FOVEA_OK ? FOVEA_OK : fv_mpi_from_core(mine);
    if (status == FOVEA_OK &&
        (rows < 0 || columns < 1 || element < 1 || element > 16 || rows > INT32_MAX || columns > INT32_MAX))
        status = fv_mpi_fail(FOVEA_ERROR_SHAPE, "%lld rows of %lld columns of %lld bytes cannot be gathered",
                             (long long)rows, (long long)columns, (long long)element);
    if (status == FOVEA_OK)
        status = fv_mpi_message_check(g, (double)rows * (double)columns * (double)element, 1);
    if (status == FOVEA_OK) {
        fv_mpi_bounds(g, columns, 0, cuts);
        if (bounds)
            memcpy(cuts, bounds, (size_t)(g->ranks + 1) * sizeof *cuts);
        for (int rank = 0; rank < g->ranks && status == FOVEA_OK; rank++)
            if (cuts[0] != 0 || cuts[rank] > cuts[rank + 1] || cuts[g->ranks] != columns)
                status = fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "bounds must go from 0 to the number of columns");
    }
    const bool any = status == FOVEA_OK && rows > 0;
    if (any && (!whole || (!own && cuts[g->rank] < cuts[g->rank + 1])))
        status = fv_mpi_fail_null(whole ? "own" : "whole");
    if (status == FOVEA_OK)
        status = fovea_mpi_group_reserve(g, (size_t)fv_mpi_message_bytes(&message));
    const int64_t sizes[] = {rows, columns, element};
    uint64_t digest = fv_mpi_digest(0, sizes, sizeof sizes);
    if (status == FOVEA_OK)
        digest = fv_mpi_digest(digest, cuts, (size_t)(g->ranks + 1) * sizeof *cuts);
    status = fv_mpi_agree(g->comm, status, digest, "rows, columns, element_bytes or bounds");
    if (status == FOVEA_OK) {
        message.all = g->memory;
        const int64_t bytes = rows * (cuts[g->rank + 1] - cuts[g->rank]) * element;
        if (bytes > 0)
            memcpy(fv_mpi_message_at(&message, g->rank, 0), own, (size_t)bytes);
        status = fv_mpi_message_exchange(&message, FOVEA_OK);
        fovea_tensor to = fovea_tensor_bthd(whole, FOVEA_DTYPE_F32, 1, rows, 1, columns);
        if (status == FOVEA_OK)
            fv_mpi_message_read(&message, 0, &to, NULL);
    }
    return status;
}
