/* fovea_embedding_sum (fovea/encoder.h). */
#include "encoder/encoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TABLES = 16 };

typedef struct embedding {
    const fovea_embedding_args *args;
    fovea_tensor tensors[MOST_TABLES];
    fv_view tables[MOST_TABLES], y;
    float scale;
} embedding;

static void rows(const void *arg, int64_t begin, int64_t end) {
    const embedding *m = arg;
    const int64_t channels = m->args->y.shape[3];
    float in[FV_RUN], sum[FV_RUN], out[FV_RUN];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            for (int64_t t = 0; t < m->args->table_count; t++) {
                const int64_t *ids = m->args->tables[t].ids;
                const float *x = fv_view_read(&m->tables[t], ids ? ids[row] : 0, at, n, in);
                if (t == 0)
                    memcpy(sum, x, (size_t)n * sizeof *x);
                else
                    fv_run_add(n, x, sum);
            }
            fv_run_finish(n, sum, m->scale, 1.0F, fv_view_write(&m->y, row, at, out));
            fv_view_written(&m->y, row, at, n, out);
        }
}

/* The table as a tensor. */
static fovea_status check_table(const fovea_embedding_args *args, int64_t t, const fv_span *y, fovea_tensor *tensor) {
    const fovea_embedding_table *table = &args->tables[t];
    const int64_t tokens = args->y.shape[2], channels = args->y.shape[3], shape[4] = {1, 1, table->rows, channels};
    char name[32], ids_name[32];
    fv_span span;
    snprintf(name, sizeof name, "table %d", (int)t);
    snprintf(ids_name, sizeof ids_name, "ids of table %d", (int)t);
    if (table->rows < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld rows; it must have at least 1", name, (long long)table->rows);
    if (table->stride < channels)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: stride is %lld, less than its %lld channels", name,
                       (long long)table->stride, (long long)channels);
    if (table->reserved)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "reserved of %s is set", name);
    *tensor = (fovea_tensor){
        (void *)(uintptr_t)table->data, table->dtype, {1, 1, table->rows, channels}, {0, 0, table->stride, 1}, NULL};
    fovea_status status = fv_floats_sizes(name, tensor, true);
    if (status == FOVEA_OK)
        status = fv_floats_check(name, tensor, shape, false, &span);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(y, &span);
    const fv_span ids = fv_lens_span(ids_name, table->ids, tokens);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(y, &ids);
    for (int64_t i = 0; status == FOVEA_OK && table->ids && i < tokens; i++)
        if (table->ids[i] < 0 || table->ids[i] >= table->rows)
            status = fv_fail(FOVEA_ERROR_ARGUMENT, "id %lld of token %lld is not in %s, which has %lld rows",
                             (long long)table->ids[i], (long long)i, name, (long long)table->rows);
    return status;
}

static fovea_status check(const fovea_embedding_args *args, embedding *m) {
    fv_span y;
    fovea_status status = fv_floats_sizes("y", &args->y, true);
    if (status == FOVEA_OK)
        status = fv_floats_check("y", &args->y, args->y.shape, true, &y);
    if (status == FOVEA_OK && !args->tables)
        status = fv_fail(FOVEA_ERROR_NULL, "tables is NULL");
    if (status == FOVEA_OK && (args->table_count < 1 || args->table_count > MOST_TABLES))
        status = fv_fail(FOVEA_ERROR_SHAPE, "table_count is %lld; it must be from 1 to %d",
                         (long long)args->table_count, MOST_TABLES);
    if (status == FOVEA_OK && !isfinite((float)args->scale))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "scale is %g; it must be finite as a float", args->scale);
    for (int64_t t = 0; status == FOVEA_OK && t < args->table_count; t++)
        status = check_table(args, t, &y, &m->tensors[t]);
    return status;
}

fovea_status fovea_embedding_sum(const fovea_context *ctx, const fovea_embedding_args *given) {
    FV_HOLD_EXCEPTIONS();
    fovea_embedding_args args;
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    fovea_embedding_args_init(&args);
    embedding m = {.args = &args};
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_embedding_args), given, &args);
    if (status == FOVEA_OK)
        status = check(&args, &m);
    if (status != FOVEA_OK)
        return status;
    for (int64_t t = 0; t < args.table_count; t++)
        m.tables[t] = fv_view_input(&m.tensors[t], ctx->target);
    m.y = fv_view_output(&args.y, ctx->target);
    m.scale = (float)args.scale;
    fv_rows_run(ctx, args.y.shape[2], args.y.shape[3] * args.table_count, rows, &m);
    return FOVEA_OK;
}
