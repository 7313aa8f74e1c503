/* encoder_refused.h. */
#include "encoder_refused.h"

#include <math.h>

#define REFUSED(call, status, words, change)                                                                           \
    do {                                                                                                               \
        args = good;                                                                                                   \
        change;                                                                                                        \
        check_status(#change, call(ctx, &args), status, words);                                                        \
    } while (0)

static void refused_embedding(const fovea_context *ctx) {
    float data[40] = {0}, y[24];
    const int64_t ids[3] = {0, 4, 1}, negative[3] = {0, 1, -1};
    fovea_embedding_table table = {.data = data, .dtype = FOVEA_DTYPE_F32, .rows = 5, .stride = 8, .ids = ids};
    fovea_embedding_args good, args;
    fovea_embedding_args_init(&good);
    good.tables = &table;
    good.table_count = 1;
    good.y = rows_of(y, FOVEA_DTYPE_F32, 3, 8);
    check_status("no context", fovea_embedding_sum(NULL, &good), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no arguments", fovea_embedding_sum(ctx, NULL), FOVEA_ERROR_NULL, "args is NULL");
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_NULL, "tables is NULL", args.tables = NULL);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_SHAPE, "table_count is 0", args.table_count = 0);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_SHAPE, "table_count is 17", args.table_count = 17);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_ARGUMENT, "scale is inf", args.scale = INFINITY);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_ARGUMENT, "scale is 1e+39", args.scale = 1e39);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_SHAPE, "y has 1 x 2 x", args.y.shape[1] = 2);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_SHAPE, "y has a size of 0", args.y.shape[3] = 0);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_OVERFLOW, "too large", args.y.shape[2] = INT64_MAX / 4);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_NULL, "y is NULL", args.y.data = NULL);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_DTYPE, "y is FOVEA_DTYPE_I8", args.y.dtype = FOVEA_DTYPE_I8);
    REFUSED(fovea_embedding_sum, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
#define TABLE(status, words, change)                                                                                   \
    do {                                                                                                               \
        const fovea_embedding_table kept = table;                                                                      \
        change;                                                                                                        \
        check_status(#change, fovea_embedding_sum(ctx, &good), status, words);                                         \
        table = kept;                                                                                                  \
    } while (0)
    TABLE(FOVEA_ERROR_ARGUMENT, "id 4 of token 1 is not in table 0, which has 4 rows", table.rows = 4);
    TABLE(FOVEA_ERROR_ARGUMENT, "id -1 of token 2", table.ids = negative);
    TABLE(FOVEA_ERROR_SHAPE, "table 0 has 0 rows", table.rows = 0);
    TABLE(FOVEA_ERROR_STRIDE, "stride is 7", table.stride = 7);
    table.rows = 1;
    table.ids = NULL;
    TABLE(FOVEA_ERROR_STRIDE, "stride is 7", table.stride = 7);
    table.rows = 5;
    table.ids = ids;
    TABLE(FOVEA_ERROR_NULL, "table 0 is NULL", table.data = NULL);
    TABLE(FOVEA_ERROR_DTYPE, "table 0 is FOVEA_DTYPE_BOOL", table.dtype = FOVEA_DTYPE_BOOL);
    TABLE(FOVEA_ERROR_ALIAS, "y overlaps table 0", table.data = y);
    TABLE(FOVEA_ERROR_ALIAS, "y overlaps ids of table 0", table.ids = (const int64_t *)(const void *)y);
    TABLE(FOVEA_ERROR_ARGUMENT, "reserved of table 0", table.reserved = y);
#undef TABLE
}

static void refused_activation(const fovea_context *ctx) {
    float x[24] = {0}, y[24];
    fovea_activate_args good, args;
    fovea_activate_args_init(&good);
    good.x = good.up = good.residual = rows_of(x, FOVEA_DTYPE_F32, 3, 8);
    good.y = rows_of(y, FOVEA_DTYPE_F32, 3, 8);
    check_status("no context", fovea_activate(NULL, &good), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no arguments", fovea_activate(ctx, NULL), FOVEA_ERROR_NULL, "args is NULL");
    REFUSED(fovea_activate, FOVEA_ERROR_NULL, "x is NULL", args.x.data = NULL);
    REFUSED(fovea_activate, FOVEA_ERROR_SHAPE, "up", args.up.shape[2] = 2);
    REFUSED(fovea_activate, FOVEA_ERROR_DTYPE, "residual is FOVEA_DTYPE_I64", args.residual.dtype = FOVEA_DTYPE_I64);
    REFUSED(fovea_activate, FOVEA_ERROR_ALIAS, "y overlaps up", args.up.data = y + 1);
    REFUSED(fovea_activate, FOVEA_ERROR_ALIAS, "y overlaps x", (args.x.data = y, args.x.dtype = FOVEA_DTYPE_BF16));
    REFUSED(fovea_activate, FOVEA_ERROR_ALIAS, "y overlaps x", (args.x.data = y, args.x.stride[2] = 7));
    REFUSED(fovea_activate, FOVEA_ERROR_STRIDE, "share memory", args.y.stride[2] = 2);
    REFUSED(fovea_activate, FOVEA_ERROR_ARGUMENT, "activation is 99", args.activation = (fovea_activation)99);
    REFUSED(fovea_activate, FOVEA_ERROR_ARGUMENT, "give up", args.activation = FOVEA_ACTIVATION_SILU_GATED);
    REFUSED(fovea_activate, FOVEA_ERROR_ARGUMENT, "give up", args.activation = FOVEA_ACTIVATION_GELU_TANH_GATED);
    REFUSED(fovea_activate, FOVEA_ERROR_ARGUMENT, "reserved", args.reserved_flags = 1);
    REFUSED(fovea_activate, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
}

static void refused_pooling(const fovea_context *ctx) {
    float x[24] = {0}, y[16 + 2];
    int64_t cu[3] = {0, 1, 3};
    fovea_pool_tokens_args good, args;
    fovea_pool_tokens_args_init(&good);
    good.x = rows_of(x, FOVEA_DTYPE_F32, 3, 8);
    good.y = rows_of(y + 2, FOVEA_DTYPE_F32, 2, 8);
    good.begin = cu;
    good.end = cu + 1;
    check_status("no context", fovea_pool_tokens(NULL, &good), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no arguments", fovea_pool_tokens(ctx, NULL), FOVEA_ERROR_NULL, "args is NULL");
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_NULL, "begin is NULL", args.begin = NULL);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_NULL, "end is NULL", args.end = NULL);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_SHAPE, "y", args.y.shape[3] = 7);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_SHAPE, "sequence 1 is rows 1 to 3, of 2 rows", args.x.shape[2] = 2);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_ALIAS, "y overlaps x", args.y.data = x);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_ALIAS, "y overlaps weights", args.weights = y);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_DTYPE, "x is FOVEA_DTYPE_I8", args.x.dtype = FOVEA_DTYPE_I8);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_ARGUMENT, "pooling is 6", args.pooling = (fovea_pooling)6);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_ARGUMENT, "reserved", args.reserved = 1);
    REFUSED(fovea_pool_tokens, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    cu[0] = -1;
    check_status("before", fovea_pool_tokens(ctx, &good), FOVEA_ERROR_SHAPE, "sequence 0 is rows -1 to 1");
    cu[0] = 0;
    cu[1] = 4;
    check_status("order", fovea_pool_tokens(ctx, &good), FOVEA_ERROR_SHAPE, "sequence 0 is rows 0 to 4");
}

static void refused_rows(const fovea_context *ctx) {
    float x[24] = {0}, y[24];
    const fovea_tensor from = rows_of(x, FOVEA_DTYPE_F32, 3, 8), to = rows_of(y, FOVEA_DTYPE_F32, 3, 8),
                       near = rows_of(x + 1, FOVEA_DTYPE_F32, 2, 8), fewer = rows_of(x, FOVEA_DTYPE_F32, 2, 8),
                       none = rows_of(NULL, FOVEA_DTYPE_F32, 3, 8), other = rows_of(y, FOVEA_DTYPE_BOOL, 3, 8);
    check_status("no context", fovea_normalize_rows(NULL, &from, &to), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no x", fovea_normalize_rows(ctx, NULL, &to), FOVEA_ERROR_NULL, "x is NULL");
    check_status("no y", fovea_normalize_rows(ctx, &from, NULL), FOVEA_ERROR_NULL, "y is NULL");
    check_status("no data", fovea_normalize_rows(ctx, &none, &to), FOVEA_ERROR_NULL, "x is NULL");
    check_status("shape", fovea_normalize_rows(ctx, &from, &fewer), FOVEA_ERROR_SHAPE, "y");
    check_status("type", fovea_normalize_rows(ctx, &from, &other), FOVEA_ERROR_DTYPE, "y is FOVEA_DTYPE_BOOL");
    check_status("overlap", fovea_normalize_rows(ctx, &fewer, &near), FOVEA_ERROR_ALIAS, "y overlaps x");
}

void check_refused(const fovea_context *ctx) {
    refused_embedding(ctx);
    refused_activation(ctx);
    refused_pooling(ctx);
    refused_rows(ctx);
}
