/* fovea_selective_scan (fovea/recurrence.h). With a dt for each head (Mamba 2) the scan is the delta rule without its
 * correction (rule.c). With one for each channel (Mamba 1) the scan kernel takes blocks of channels, a unit of work
 * each, through chunks of tokens. */
#include "recurrence/recurrence.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = FV_STATE_COLUMNS, TASK_ELEMENTS = 1 << 14 }; /* least work for a thread of its own */

/* A call. */
typedef struct scan {
    const fovea_context *ctx;
    fovea_scan_args args;
    fv_sequences sequences;
    bool per_channel; /* Mamba 1 */
    /* For Mamba 1: */
    fv_scan_f32_fn *kernel;
    fv_bias_act_residual_f32_fn *activate;
    int64_t blocks, units, tasks, bytes; /* bytes of a task */
    char *base;
    _Atomic int64_t next;
} scan;

/* Floats that a task has, each part rows of COLUMNS or of state_dim. */
enum { PART_STATE, PART_A, PART_B, PART_C, PART_X, PART_DT, PART_O, PART_Z, PART_SKIP, PART_SPARE, PARTS };

static int64_t place(const scan *s, int part) {
    const int64_t rows = s->sequences.rows, n = fv_max(fv_min(FV_RULE_TOKENS, s->sequences.tokens), 1);
    const int64_t sizes[PARTS] = {rows * COLUMNS, rows * COLUMNS, n * rows,    n * rows, n * COLUMNS,
                                  n * COLUMNS,    n * COLUMNS,    n * COLUMNS, COLUMNS,  rows * COLUMNS};
    int64_t bytes = 0;
    for (int i = 0; i < part; i++)
        fv_reserve(&bytes, sizes[i], sizeof(float));
    return bytes;
}

static fovea_status check_sizes(const fovea_scan_args *a) {
    fovea_status status = fv_call_sizes("x", &a->x);
    if (status == FOVEA_OK)
        status = fv_call_sizes("b", &a->b);
    if (status != FOVEA_OK)
        return status;
    if (a->x.shape[1] % a->b.shape[1] != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "x has %lld heads, which is no multiple of the %lld of b",
                       (long long)a->x.shape[1], (long long)a->b.shape[1]);
    if (a->b.shape[3] > FV_CHANNEL_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "states of %lld rows are too large", (long long)a->b.shape[3]);
    if (!(a->dt_min <= a->dt_max))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "dt_min is %g, dt_max %g; dt_min must not be greater", a->dt_min,
                       a->dt_max);
    return FOVEA_OK;
}

static void divide(scan *s) {
    const double work =
        s->sequences.all * (double)s->sequences.heads * (double)s->sequences.columns * (double)s->sequences.rows;
    s->blocks = fv_ceil_div(s->sequences.columns, COLUMNS);
    s->units = s->sequences.count * s->sequences.heads * s->blocks;
    s->tasks =
        work < TASK_ELEMENTS ? 1 : fv_min((int64_t)fmin(work / TASK_ELEMENTS, (double)s->units), s->ctx->threads.count);
    s->bytes = place(s, PARTS);
}

static fovea_status read(const fovea_context *ctx, const fovea_scan_args *given, scan *s) {
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    s->ctx = ctx;
    fovea_scan_args *a = &s->args;
    fovea_scan_args_init(a);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_scan_args), given, a);
    if (status == FOVEA_OK)
        status = check_sizes(a);
    if (status == FOVEA_OK)
        status = fv_sequences_read(a->states, a->x.shape[0], a->x.shape[2], &s->sequences);
    if (status != FOVEA_OK)
        return status;
    s->sequences.heads = a->x.shape[1];
    s->sequences.rows = a->b.shape[3];
    s->sequences.columns = a->x.shape[3];
    s->per_channel = a->dt.shape[3] != 1 || a->x.shape[3] == 1;
    if (!s->per_channel && a->x.shape[3] > FV_CHANNEL_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "heads of %lld channels are too large", (long long)a->x.shape[3]);
    if (s->per_channel)
        divide(s);
    return FOVEA_OK;
}

static fovea_status check(const scan *s, const void *workspace, size_t size) {
    const fovea_scan_args *a = &s->args;
    const int64_t batch = a->x.shape[0], heads = a->x.shape[1], tokens = a->x.shape[2], channels = a->x.shape[3],
                  groups = a->b.shape[1], rows = a->b.shape[3], width = s->per_channel ? channels : 1;
    const fv_operand_rule tensors[] = {{"out", &a->out, {batch, heads, tokens, channels}, true, false},
                                       {"x", &a->x, {batch, heads, tokens, channels}, false, false},
                                       {"dt", &a->dt, {batch, heads, tokens, width}, false, false},
                                       {"b", &a->b, {batch, groups, tokens, rows}, false, false},
                                       {"c", &a->c, {batch, groups, tokens, rows}, false, false},
                                       {"z", &a->z, {batch, heads, tokens, channels}, false, true}};
    const fv_array_rule arrays[] = {{"a", a->a, s->per_channel ? heads * channels * rows : heads},
                                    {"d", a->d, heads * width},
                                    {"dt_bias", a->dt_bias, heads * width}};
    if (!a->a)
        return fv_fail(FOVEA_ERROR_NULL, "a is NULL");
    return fv_call_check(tensors, sizeof tensors / sizeof tensors[0], arrays, sizeof arrays / sizeof arrays[0],
                         &s->sequences, workspace, size);
}

/* ------------------------------------------------------------------------------------------------------ Mamba 2 -- */

static fv_rule rule_of(const scan *s) {
    const fovea_scan_args *a = &s->args;
    return (fv_rule){.ctx = s->ctx,
                     .q = &a->c,
                     .k = &a->b,
                     .v = &a->x,
                     .gate = &a->dt,
                     .z = a->z.data ? &a->z : NULL,
                     .out = &a->out,
                     .sequences = s->sequences,
                     .scale = 1,
                     .rate = a->a,
                     .bias = a->dt_bias,
                     .softplus = a->dt_softplus,
                     .limited = a->dt_min > 0 || a->dt_max < INFINITY || !a->dt_softplus,
                     .low = (float)a->dt_min,
                     .high = (float)a->dt_max,
                     .steps = true,
                     .skip = a->d};
}

/* ------------------------------------------------------------------------------------------------------ Mamba 1 -- */

/* A tensor whose first channel is column. */
static fovea_tensor from_column(const fovea_tensor *t, int64_t column, int64_t columns) {
    fovea_tensor part = *t;
    part.data = (char *)t->data + column * fv_dtype_size(t->dtype);
    part.shape[3] = columns;
    return part;
}

static float *part_of(const scan *s, char *base, int part) { return (float *)(void *)(base + place(s, part)); }

/* Rows of a block in floats, COLUMNS apart and whole. */
static const float *block_rows(const scan *s, const fovea_tensor *t, int64_t batch, int64_t head, int64_t token,
                               int64_t n, int64_t column, int64_t columns, float *to, int64_t *ld) {
    const fovea_tensor part = from_column(t, column, columns);
    *ld = COLUMNS;
    const float *from = fv_rows_floats(s->ctx, &part, batch, head, token, n, to, ld);
    if (columns == COLUMNS)
        return from;
    if (from != to)
        s->ctx->ops.copy(n, columns, from, *ld, to, COLUMNS);
    for (int64_t t0 = 0; t0 < n; t0++)
        memset(to + t0 * COLUMNS + columns, 0, (size_t)(COLUMNS - columns) * sizeof *to);
    *ld = COLUMNS;
    return to;
}

static void make_steps(const scan *s, int64_t batch, int64_t head, int64_t token, int64_t n, int64_t column,
                       int64_t columns, float *dt) {
    const fovea_scan_args *a = &s->args;
    int64_t ld;
    const float *from = block_rows(s, &a->dt, batch, head, token, n, column, columns, dt, &ld);
    float bias[COLUMNS] = {0};
    if (a->dt_bias)
        memcpy(bias, a->dt_bias + head * s->sequences.columns + column, (size_t)columns * sizeof *bias);
    const fv_bias_act_residual act = {.bias = a->dt_bias ? bias : NULL,
                                      .activation = a->dt_softplus ? FV_ACT_SOFTPLUS : FV_ACT_NONE};
    s->activate(n, COLUMNS, from, ld, &act, dt, COLUMNS);
    fv_vector_limit(n * COLUMNS, (float)a->dt_min, (float)a->dt_max, dt);
}

/* The block's A, transposed, and D. */
static void make_constants(const scan *s, int64_t head, int64_t column, int64_t columns, char *base) {
    const int64_t rows = s->sequences.rows, at = head * s->sequences.columns + column;
    const fv_state a = {(void *)(uintptr_t)(s->args.a + at * rows), FOVEA_DTYPE_F32, rows, true};
    fv_state_load(s->ctx, &a, rows, 0, columns, part_of(s, base, PART_A), COLUMNS, part_of(s, base, PART_SPARE));
    float *skip = part_of(s, base, PART_SKIP);
    memset(skip, 0, COLUMNS * sizeof *skip);
    if (s->args.d)
        memcpy(skip, s->args.d + at, (size_t)columns * sizeof *skip);
}

static void run_chunk(const scan *s, int64_t batch, int64_t head, int64_t token, int64_t n, int64_t column,
                      int64_t columns, char *base) {
    const fovea_scan_args *a = &s->args;
    const int64_t rows = s->sequences.rows, group = head / (s->sequences.heads / a->b.shape[1]);
    fv_scan call = {.tokens = n,
                    .rows = rows,
                    .dt = part_of(s, base, PART_DT),
                    .a = part_of(s, base, PART_A),
                    .skip = a->d ? part_of(s, base, PART_SKIP) : NULL,
                    .o = part_of(s, base, PART_O),
                    .ldb = rows,
                    .ldc = rows,
                    .lddt = COLUMNS,
                    .ldo = COLUMNS,
                    .state = part_of(s, base, PART_STATE)};
    call.b = fv_rows_floats(s->ctx, &a->b, batch, group, token, n, part_of(s, base, PART_B), &call.ldb);
    call.c = fv_rows_floats(s->ctx, &a->c, batch, group, token, n, part_of(s, base, PART_C), &call.ldc);
    call.x = block_rows(s, &a->x, batch, head, token, n, column, columns, part_of(s, base, PART_X), &call.ldx);
    make_steps(s, batch, head, token, n, column, columns, part_of(s, base, PART_DT));
    s->kernel(&call);
    if (a->z.data) {
        int64_t ld;
        const float *z = block_rows(s, &a->z, batch, head, token, n, column, columns, part_of(s, base, PART_Z), &ld);
        const fv_bias_act_residual act = {.activation = FV_ACT_SILU, .up = call.o, .ldup = COLUMNS};
        s->activate(n, columns, z, ld, &act, call.o, COLUMNS);
    }
    const fovea_tensor out = from_column(&a->out, column, columns);
    fv_narrow_bf16_fn *narrow = fv_narrow_of(out.dtype, s->ctx->target);
    if (narrow)
        narrow(n, columns, call.o, COLUMNS, fv_token_at(&out, batch, head, token), out.stride[2]);
    else
        s->ctx->ops.copy(n, columns, call.o, COLUMNS, fv_token_at(&out, batch, head, token), out.stride[2]);
}

static void run_unit(const scan *s, int64_t unit, char *base) {
    const int64_t column = unit % s->blocks * COLUMNS, columns = fv_min(s->sequences.columns - column, COLUMNS);
    const int64_t pair = unit / s->blocks, head = pair % s->sequences.heads, sequence = pair / s->sequences.heads;
    const int64_t rows = s->sequences.rows;
    float *state = part_of(s, base, PART_STATE), *spare = part_of(s, base, PART_SPARE);
    const fv_state before = fv_state_before(&s->sequences, sequence, head);
    int64_t batch, first;
    const int64_t all = fv_sequence_tokens(&s->sequences, sequence, &batch, &first);
    make_constants(s, head, column, columns, base);
    fv_state_load(s->ctx, &before, rows, column, columns, state, COLUMNS, spare);
    int64_t done = 0;
    do {
        const int64_t n = fv_sequence_chunk(&s->sequences, FV_RULE_TOKENS, all - done);
        if (n > 0)
            run_chunk(s, batch, head, first + done, n, column, columns, base);
        done += n;
        const fv_state after = fv_state_after(&s->sequences, sequence, head, all - done);
        if (after.data)
            fv_vector_canonical(rows * COLUMNS, state);
        fv_state_store(s->ctx, &after, rows, column, columns, state, COLUMNS, spare);
    } while (done < all);
}

static void run_task(void *arg, int64_t task) {
    scan *s = arg;
    char *base = s->base + task * s->bytes;
    for (int64_t unit, end; (unit = fv_claim(&s->next, s->units, s->tasks, &end)) < end;)
        for (; unit < end; unit++)
            run_unit(s, unit, base);
}

static int64_t bytes_of(const scan *s) {
    int64_t bytes = 0;
    if (!s->per_channel) {
        const fv_rule rule = rule_of(s);
        return fv_rule_bytes(&rule);
    }
    fv_reserve(&bytes, s->tasks, s->bytes);
    return bytes < 0 || !fv_add(bytes, FV_ALIGNMENT, &bytes) ? -1 : bytes;
}

static fovea_status run(scan *s, void *workspace, size_t workspace_size) {
    void *own;
    const fovea_status status = fv_call_workspace(bytes_of(s), workspace, workspace_size, &own, &s->base);
    if (status != FOVEA_OK)
        return status;
    s->kernel = fv_kernel_best(FV_OP_scan, FV_TYPE_f32, s->ctx->target)->run.scan_f32;
    s->activate = fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, s->ctx->target)->run.bias_act_residual_f32;
    fv_sequences_clear(&s->sequences, &s->args.out, false);
    fv_sequences_begin(&s->sequences);
    if (s->units > 0)
        fv_parallel(&s->ctx->threads, s->tasks, &(fv_work){.task = run_task, .arg = s});
    fv_sequences_end(&s->sequences);
    free(own);
    return FOVEA_OK;
}

size_t fovea_selective_scan_workspace_size(const fovea_context *ctx, const fovea_scan_args *args) {
    scan s = {0};
    return read(ctx, args, &s) == FOVEA_OK ? (size_t)fv_max(bytes_of(&s), 0) : 0;
}

fovea_status fovea_selective_scan(const fovea_context *ctx, const fovea_scan_args *args, void *workspace,
                                  size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    scan s = {0};
    fovea_status status = read(ctx, args, &s);
    if (status == FOVEA_OK)
        status = check(&s, workspace, workspace_size);
    if (status != FOVEA_OK || s.per_channel)
        return status == FOVEA_OK ? run(&s, workspace, workspace_size) : status;
    const fv_rule rule = rule_of(&s);
    return fv_rule_run(&rule, workspace, workspace_size);
}
