/* Executing linear maps by output columns: this rank's columns go to its message, all ranks' to y. */
#include "agree.h"
#include "linear.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>

/* Sections of the message, one for each output, and other arrays of a call. */
typedef struct layout {
    fv_mpi_message message;
    fv_mpi_section *sections;
    fovea_tensor *y, *residual; /* of this rank's map */
    char *residuals, *workspace;
    int64_t bytes;
} layout;

static int64_t own_columns(const fovea_mpi_linear *l, const fv_mpi_section *s) {
    return s->bounds[l->group->rank + 1] - s->bounds[l->group->rank];
}

static layout lay_out(const fovea_mpi_linear *l, int64_t rows, char *memory) {
    layout a = {0};
    const int64_t sections = fv_mpi_units(l->outputs * (int64_t)sizeof *a.sections),
                  tensors = fv_mpi_units(l->outputs * (int64_t)sizeof *a.y);
    int64_t messages = FV_MPI_UNIT * l->group->ranks, residuals = 0;
    for (int64_t i = 0; i < l->outputs; i++)
        for (int rank = 0; rank < l->group->ranks; rank++) {
            const int64_t *bounds = fv_mpi_linear_bounds(l, i);
            const int64_t elements = rows * (bounds[rank + 1] - bounds[rank]);
            messages += fv_mpi_units(elements * fv_mpi_element(l->y_dtype));
            residuals += rank == l->group->rank ? fv_mpi_units(elements * fv_mpi_element(l->residual_dtype)) : 0;
        }
    a.bytes = sections + 2 * tensors + messages + residuals;
    if (memory) {
        a.sections = (fv_mpi_section *)(void *)memory;
        a.y = (fovea_tensor *)(void *)(memory + sections);
        a.residual = (fovea_tensor *)(void *)(memory + sections + tensors);
        a.message = (fv_mpi_message){l->group, memory + sections + 2 * tensors, a.sections, l->outputs};
        a.residuals = a.message.all + messages;
        a.workspace = a.residuals + residuals;
    }
    a.bytes += fv_mpi_max(l->map ? (int64_t)fovea_linear_workspace_size(l->map) : 0,
                          (int64_t)fovea_linear_workspace_size(l->check));
    return a;
}

/* Zeros for check(), and which rows are written, come before the layout. */
static int64_t rows_bytes(int64_t rows) { return fv_mpi_units(rows * (int64_t)sizeof(int64_t)) + fv_mpi_units(rows); }

size_t fovea_mpi_linear_memory(const fovea_mpi_linear *l, int64_t rows) {
    return l && rows >= 0 ? (size_t)(fv_mpi_units(rows_bytes(rows) + lay_out(l, rows, NULL).bytes)) : 0;
}

/* This rank's columns of a residual, as rows. */
static void copy_residual(const fovea_tensor *whole, int64_t first, int64_t count, int64_t rows, char *to) {
    const int64_t element = fv_mpi_element(whole->dtype), channels = whole->shape[3], tokens = whole->shape[2];
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row / tokens * whole->stride[0] + row % tokens * whole->stride[2];
        for (int64_t done = 0, n; done < count; done += n, to += n * element) {
            const int64_t head = (first + done) / channels, c = (first + done) % channels;
            n = fv_mpi_min(count - done, channels - c);
            memcpy(to, (const char *)whole->data + (at + head * whole->stride[1] + c) * element, (size_t)(n * element));
        }
    }
}

/* The map of this rank, into its message. */
static fovea_status compute(const fovea_mpi_linear *l, const fovea_linear_args *given, const layout *a) {
    const int64_t batch = given->x.shape[0], tokens = given->x.shape[2], rows = batch * tokens;
    const int rank = l->group->rank;
    fovea_linear_args args = *given;
    char *residual = a->residuals;
    bool any = false;
    for (int64_t k = 0; k < l->own_count; k++) {
        const int64_t i = l->own[k], columns = own_columns(l, &a->sections[i]);
        a->y[k] = a->residual[k] = (fovea_tensor){0};
        if (a->sections[i].rows == 0)
            continue;
        any = true;
        char *to = fv_mpi_message_at(&a->message, rank, i);
        a->y[k] = fovea_tensor_bthd(to, l->y_dtype, batch, tokens, 1, columns);
        if (!given->residual)
            continue;
        copy_residual(&given->residual[i], a->sections[i].bounds[rank], columns, rows, residual);
        a->residual[k] = fovea_tensor_bthd(residual, l->residual_dtype, batch, tokens, 1, columns);
        residual += fv_mpi_units(rows * columns * fv_mpi_element(l->residual_dtype));
    }
    if (!l->map || !any) {
        if (given->stats)
            given->stats->products = given->stats->fast_products = 0;
        return FOVEA_OK;
    }
    args.y = a->y;
    args.residual = given->residual ? a->residual : NULL;
    const fovea_status status = fovea_linear_execute(l->map, &args, a->workspace, fovea_linear_workspace_size(l->map));
    return fv_mpi_from_core(status);
}

static void set_sections(const fovea_mpi_linear *l, const fovea_linear_args *args, const layout *a) {
    for (int64_t i = 0; i < l->outputs; i++)
        a->sections[i] =
            (fv_mpi_section){fv_mpi_linear_bounds(l, i), args->y[i].data ? args->x.shape[0] * args->x.shape[2] : 0,
                             fv_mpi_element(l->y_dtype)};
}

static fovea_status gather(fovea_mpi_linear *l, const fovea_linear_args *args, const layout *a,
                           const unsigned char *written, fovea_status status) {
    status = fv_mpi_message_exchange(&a->message, status);
    for (int64_t i = 0; status == FOVEA_OK && i < l->outputs; i++)
        if (a->sections[i].rows > 0)
            fv_mpi_message_read(&a->message, i, &args->y[i], written);
    return status;
}

fovea_status fv_mpi_linear_run(fovea_mpi_linear *l, const fovea_linear_args *args, char *memory,
                               const unsigned char *written, fovea_status status) {
    const layout a = lay_out(l, args->x.shape[0] * args->x.shape[2], memory);
    set_sections(l, args, &a);
    return gather(l, args, &a, written, status == FOVEA_OK ? compute(l, args, &a) : status);
}

/* Before anything is made of x's sizes. */
static fovea_status check_x(const fovea_mpi_linear *l, const fovea_linear_args *args) {
    const int64_t *shape = args->x.shape, most = (int64_t)1 << 31;
    for (int i = 0; i < 4; i++)
        if (shape[i] < (i == 1 || i == 3) || shape[i] > most)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "x has a size of %lld", (long long)shape[i]);
    if (shape[1] * shape[3] != l->in || shape[0] * shape[2] > most)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "x has %lld rows of %lld x %lld channels, but in_features is %lld",
                           (long long)(shape[0] * shape[2]), (long long)shape[1], (long long)shape[3],
                           (long long)l->in);
    double bytes = 0; /* no overflow, whatever the sizes */
    for (int64_t i = 0; i < l->outputs; i++)
        bytes += (double)(shape[0] * shape[2]) * (double)fv_mpi_linear_bounds(l, i)[l->group->ranks] *
                 (double)fv_mpi_element(l->y_dtype);
    const fovea_status status = fv_mpi_message_check(l->group, bytes, l->outputs);
    if (status != FOVEA_OK)
        return status;
    if (!args->y)
        return fv_mpi_fail_null("y");
    for (int64_t b = 0; args->lens && b < shape[0]; b++)
        if (args->lens[b] < 0 || args->lens[b] > shape[2])
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "lens[%lld] is %lld, but x has %lld tokens", (long long)b,
                               (long long)args->lens[b], (long long)shape[2]);
    return FOVEA_OK;
}

fovea_status fv_mpi_linear_check(const fovea_mpi_linear *l, const fovea_linear_args *args, const int64_t *zeros,
                                 char *memory) {
    const int64_t rows = args->x.shape[0] * args->x.shape[2];
    fovea_linear_args a = *args;
    a.x.shape[1] = a.x.shape[3] = 1;
    a.lens = zeros;
    a.stats = NULL;
    const fovea_status status =
        fovea_linear_execute(l->check, &a, lay_out(l, rows, memory).workspace, fovea_linear_workspace_size(l->check));
    return fv_mpi_from_core(status);
}

static uint64_t digest_of(const fovea_mpi_linear *l, const fovea_linear_args *args) {
    const int64_t sizes[] = {args->x.shape[0], args->x.shape[2], args->lens != NULL, args->residual != NULL,
                             args->has_activation ? 1 + (int64_t)args->activation : 0};
    uint64_t digest = fv_mpi_digest(0, sizes, sizeof sizes);
    for (int64_t i = 0; i < l->outputs; i++) {
        const bool asked = args->y[i].data != NULL;
        digest = fv_mpi_digest(digest, &asked, sizeof asked);
    }
    return args->lens ? fv_mpi_digest(digest, args->lens, (size_t)args->x.shape[0] * sizeof *args->lens) : digest;
}

fovea_status fovea_mpi_linear_execute(fovea_mpi_linear *l, const fovea_linear_args *given) {
    if (!l)
        return fv_mpi_fail_null("linear");
    fovea_mpi_group *g = l->group;
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    fovea_status status = fv_mpi_read_struct(&args, given, sizeof args, "args");
    if (status == FOVEA_OK)
        status = check_x(l, &args);
    const int64_t batch = args.x.shape[0], tokens = args.x.shape[2], rows = batch * tokens;
    if (status == FOVEA_OK)
        status = fovea_mpi_group_reserve(g, fovea_mpi_linear_memory(l, batch > rows ? batch : rows));
    char *memory = g->memory;
    layout a = {0};
    unsigned char *written = NULL;
    if (status == FOVEA_OK) {
        const int64_t most = batch > rows ? batch : rows;
        memset(memory, 0, (size_t)(batch * (int64_t)sizeof(int64_t)));
        status = fv_mpi_linear_check(l, &args, (const int64_t *)(const void *)memory, memory + rows_bytes(most));
        written = args.lens ? (unsigned char *)memory + fv_mpi_units(most * (int64_t)sizeof(int64_t)) : NULL;
        for (int64_t row = 0; written && row < rows; row++)
            written[row] = row % tokens < args.lens[row / tokens];
        a = lay_out(l, rows, memory + rows_bytes(most));
        set_sections(l, &args, &a);
    }
    fv_mpi_vote vote;
    fv_mpi_vote_begin(&vote, g->comm, status, status == FOVEA_OK ? digest_of(l, &args) : 0);
    if (status == FOVEA_OK)
        status = compute(l, &args, &a);
    const fovea_status agreed = fv_mpi_vote_end(&vote, "sizes of x, lens, the activation or which y are asked for");
    if (agreed != FOVEA_OK || rows == 0)
        return agreed;
    return gather(l, &args, &a, written, status);
}
