/* fovea_causal_conv (fovea/recurrence.h). A unit of work is a block of channels of one sequence, and of its tokens, as
 * only the first of them need the state. Where a tensor has channels first, a run of tokens is transposed. */
#include "recurrence/recurrence.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 256, /* channels */
    RUN = 64,    /* tokens of a run */
    MOST_TAPS = 64,
    TASK_ELEMENTS = 1 << 15, /* least work for a thread of its own */
};

typedef struct conv {
    const fovea_context *ctx;
    fovea_conv_args args;
    fv_sequences sequences;
    int64_t taps, channels;
    int64_t blocks, units, tasks, bytes; /* bytes of a task */
    fv_convolve_f32_fn *kernel;
    char *base;
    _Atomic int64_t next;
} conv;

/* Floats that a task has. */
enum { PART_ROWS, PART_OUT, PART_WEIGHT, PART_ROOM, PARTS };

static int64_t place(const conv *c, int part) {
    const int64_t sizes[PARTS] = {(RUN + MOST_TAPS) * BLOCK, RUN * BLOCK, c->taps * BLOCK, BLOCK * RUN};
    int64_t bytes = 0;
    for (int i = 0; i < part; i++)
        fv_reserve(&bytes, sizes[i], sizeof(float));
    return bytes;
}

static float *part_of(const conv *c, char *base, int part) { return (float *)(void *)(base + place(c, part)); }

static fovea_status read(const fovea_context *ctx, const fovea_conv_args *given, conv *c) {
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    c->ctx = ctx;
    fovea_conv_args *a = &c->args;
    fovea_conv_args_init(a);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_conv_args), given, a);
    if (status != FOVEA_OK)
        return status;
    const int64_t *shape = a->x.shape;
    const fovea_tensor sizes = {
        .shape = {shape[0], shape[1], shape[a->x_channels_first ? 3 : 2], shape[a->x_channels_first ? 2 : 3]}};
    status = fv_call_sizes("x", &sizes);
    if (status == FOVEA_OK && shape[1] != 1)
        status = fv_fail(FOVEA_ERROR_SHAPE, "x has %lld heads; a convolution has 1", (long long)shape[1]);
    if (status == FOVEA_OK && (a->taps < 1 || a->taps > MOST_TAPS))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "taps is %lld; it must be from 1 to %d", (long long)a->taps, MOST_TAPS);
    if (status == FOVEA_OK)
        status = fv_sequences_read(a->states, shape[0], sizes.shape[2], &c->sequences);
    if (status != FOVEA_OK)
        return status;
    c->taps = a->taps;
    c->channels = sizes.shape[3];
    c->sequences.heads = 1;
    c->sequences.rows = a->taps - 1;
    c->sequences.columns = c->channels;
    if (a->taps == 1) { /* no state */
        c->sequences.given.before.data = c->sequences.given.after.data = NULL;
        c->sequences.given.cache = NULL;
    }
    const double work = c->sequences.all * (double)c->channels;
    c->blocks = fv_ceil_div(c->channels, BLOCK);
    c->units = c->sequences.count * c->blocks;
    c->tasks =
        work < TASK_ELEMENTS ? 1 : fv_min((int64_t)fmin(work / TASK_ELEMENTS, (double)c->units), ctx->threads.count);
    c->bytes = place(c, PARTS);
    return FOVEA_OK;
}

static fovea_status check(const conv *c, const void *workspace, size_t size) {
    const fovea_conv_args *a = &c->args;
    const int64_t *shape = a->x.shape, tokens = c->sequences.tokens, channels = c->channels;
    const bool first = a->out_channels_first;
    const fv_operand_rule tensors[] = {
        {"out", &a->out, {shape[0], 1, first ? channels : tokens, first ? tokens : channels}, true, false},
        {"x", &a->x, {shape[0], 1, shape[2], shape[3]}, false, false}};
    const fv_array_rule arrays[] = {{"weight", a->weight, channels * c->taps}, {"bias", a->bias, channels}};
    if (!a->weight)
        return fv_fail(FOVEA_ERROR_NULL, "weight is NULL");
    return fv_call_check(tensors, 2, arrays, 2, &c->sequences, workspace, size);
}

/* A tensor as states are: its rows are tokens of a batch from one on, its columns channels. */
static fv_state tokens_of(const fovea_tensor *t, bool channels_first, int64_t batch, int64_t token) {
    fv_state rows = {t->data, t->dtype, t->stride[2], channels_first};
    const int64_t step = channels_first ? 1 : t->stride[2];
    rows.data = (char *)t->data + fv_dtype_size(t->dtype) * (batch * t->stride[0] + token * step);
    return rows;
}

/* n tokens from one on, behind the taps - 1 before them. */
static void run_tokens(const conv *c, int64_t batch, int64_t token, int64_t n, int64_t column, int64_t columns,
                       char *base) {
    const fovea_conv_args *a = &c->args;
    const bool direct = a->out.dtype == FOVEA_DTYPE_F32 && !a->out_channels_first;
    float *out = part_of(c, base, PART_OUT);
    fv_convolve call = {.tokens = n,
                        .taps = c->taps,
                        .n = columns,
                        .x = part_of(c, base, PART_ROWS),
                        .weight = part_of(c, base, PART_WEIGHT),
                        .bias = a->bias ? a->bias + column : NULL,
                        .y = direct ? (float *)fv_token_at(&a->out, batch, 0, token) + column : out,
                        .ldx = BLOCK,
                        .ldweight = BLOCK,
                        .ldy = direct ? a->out.stride[2] : BLOCK,
                        .silu = a->silu};
    c->kernel(&call);
    const fv_state to = tokens_of(&a->out, a->out_channels_first, batch, token);
    if (!direct)
        fv_state_store(c->ctx, &to, n, column, columns, out, BLOCK, part_of(c, base, PART_ROOM));
}

static void load_tokens(const conv *c, int64_t batch, int64_t token, int64_t n, int64_t column, int64_t columns,
                        float *to, char *base) {
    const fv_state from = tokens_of(&c->args.x, c->args.x_channels_first, batch, token);
    fv_state_load(c->ctx, &from, n, column, columns, to, BLOCK, part_of(c, base, PART_ROOM));
}

/* Few tokens of channels that have their states in front of them, as ggml has them: nothing is transposed in memory. */
static bool run_in_place(const conv *c, int64_t batch, int64_t first, int64_t n, const fv_state *old, int64_t column,
                         int64_t columns) {
    enum { MOST_TOKENS = 7, TAPS = 4 };
    const fovea_conv_args *a = &c->args;
    const fv_state x = tokens_of(&a->x, a->x_channels_first, batch, first - (TAPS - 1));
    if (n < 1 || n > MOST_TOKENS || c->taps != TAPS || columns % FV_LANES != 0 || !x.by_columns ||
        x.dtype != FOVEA_DTYPE_F32 || a->out.dtype != FOVEA_DTYPE_F32 || a->out_channels_first || old->data != x.data ||
        old->dtype != x.dtype || !old->by_columns || old->stride != x.stride || c->sequences.given.cache ||
        c->sequences.given.after.data)
        return false;
    c->kernel(&(fv_convolve){.tokens = n,
                             .taps = TAPS,
                             .n = columns,
                             .x = (const float *)x.data + column * x.stride,
                             .weight = a->weight + column * TAPS,
                             .bias = a->bias ? a->bias + column : NULL,
                             .y = (float *)fv_token_at(&a->out, batch, 0, first) + column,
                             .ldx = x.stride,
                             .ldweight = TAPS,
                             .ldy = a->out.stride[2],
                             .silu = a->silu,
                             .by_channels = 1});
    return true;
}

static void run_unit(const conv *c, int64_t unit, char *base) {
    const int64_t column = unit % c->blocks * BLOCK, columns = fv_min(c->channels - column, BLOCK);
    const int64_t sequence = unit / c->blocks, before = c->taps - 1;
    const fv_state weight = {(void *)(uintptr_t)c->args.weight, FOVEA_DTYPE_F32, c->taps, true},
                   old = fv_state_before(&c->sequences, sequence, 0);
    float *rows = part_of(c, base, PART_ROWS), *room = part_of(c, base, PART_ROOM);
    int64_t batch, first;
    const int64_t all = fv_sequence_tokens(&c->sequences, sequence, &batch, &first);
    if (run_in_place(c, batch, first, all, &old, column, columns))
        return;
    fv_state_load(c->ctx, &weight, c->taps, column, columns, part_of(c, base, PART_WEIGHT), BLOCK, room);
    fv_state_load(c->ctx, &old, before, column, columns, rows, BLOCK, room);
    int64_t done = 0;
    do { /* rows begins with the tokens before */
        const int64_t n = fv_sequence_chunk(&c->sequences, RUN, all - done);
        if (n > 0) {
            load_tokens(c, batch, first + done, n, column, columns, rows + before * BLOCK, base);
            run_tokens(c, batch, first + done, n, column, columns, base);
            memmove(rows, rows + n * BLOCK, (size_t)(before * BLOCK) * sizeof *rows);
        }
        done += n;
        const fv_state after = fv_state_after(&c->sequences, sequence, 0, all - done);
        if (before == 0 || !after.data)
            continue;
        fv_vector_canonical(before * BLOCK, rows);
        fv_state_store(c->ctx, &after, before, column, columns, rows, BLOCK, room);
    } while (done < all);
}

static void run_task(void *arg, int64_t task) {
    conv *c = arg;
    char *base = c->base + task * c->bytes;
    for (int64_t unit, end; (unit = fv_claim(&c->next, c->units, c->tasks, &end)) < end;)
        for (; unit < end; unit++)
            run_unit(c, unit, base);
}

static int64_t bytes_of(const conv *c) {
    int64_t bytes = 0;
    fv_reserve(&bytes, c->tasks, c->bytes);
    return bytes < 0 || !fv_add(bytes, FV_ALIGNMENT, &bytes) ? -1 : bytes;
}

size_t fovea_causal_conv_workspace_size(const fovea_context *ctx, const fovea_conv_args *args) {
    conv c = {0};
    return read(ctx, args, &c) == FOVEA_OK ? (size_t)fv_max(bytes_of(&c), 0) : 0;
}

fovea_status fovea_causal_conv(const fovea_context *ctx, const fovea_conv_args *args, void *workspace,
                               size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    conv c = {0};
    void *own;
    fovea_status status = read(ctx, args, &c);
    if (status == FOVEA_OK)
        status = check(&c, workspace, workspace_size);
    if (status == FOVEA_OK)
        status = fv_call_workspace(bytes_of(&c), workspace, workspace_size, &own, &c.base);
    if (status != FOVEA_OK)
        return status;
    c.kernel = fv_kernel_best(FV_OP_convolve, FV_TYPE_f32, ctx->target)->run.convolve_f32;
    fv_sequences_clear(&c.sequences, &c.args.out, c.args.out_channels_first);
    fv_sequences_begin(&c.sequences);
    if (c.units > 0)
        fv_parallel(&ctx->threads, c.tasks, &(fv_work){.task = run_task, .arg = &c});
    fv_sequences_end(&c.sequences);
    free(own);
    return FOVEA_OK;
}
