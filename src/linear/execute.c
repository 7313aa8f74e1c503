/* Execution of linear maps (linear.h): row blocks times groups of panels, claimed by threads from a counter.
 *
 * An item multiplies its rows of x by one panel after another. The rows stay in the second-level cache, or come from
 * beyond it once for each panel (choice.c), a panel is read from wherever it is once for each row block; with a
 * few rows that reading is all the work there is, and takes as long as memory takes. Products of a chunk of rows and
 * one panel go to scratch, and from there, still in cache, through bias, activation and residual to where the caller
 * wants them, in runs of columns of one head and of rows whose places are evenly apart.
 */
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/linear.h"
#include "threads/threads.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct execution {
    const fovea_linear *linear;
    const fovea_linear_args *args;
    fv_linear_choice choice;
    fv_linear_scratch scratch; /* of a thread */
    char *scratches;
    int64_t rows, row_block, group; /* group: panels of an item */
    int64_t items, groups, tasks;
    bool even; /* rows of different sequences are as far apart as those of one */
    _Atomic int64_t next;
} execution;

/* Rows whose places in every tensor are evenly apart: count, after done ones from a token of a sequence on. */
typedef struct row_run {
    int64_t batch, token, done, count;
    int64_t first; /* the row of its batch and token, counted in the item */
} row_run;

/* A thread's scratch. */
typedef struct buffers {
    float *products, *x, *weights, *y;
} buffers;

/* Are the rows of all sequences evenly apart? */
static bool evenly(const fovea_tensor *t) {
    return t->shape[0] == 1 || t->shape[2] == 1 || t->stride[0] == t->shape[2] * t->stride[2];
}

static int64_t row_stride(const fovea_tensor *t) { return t->shape[2] == 1 ? t->stride[0] : t->stride[2]; }

static void *place(const fovea_tensor *t, const row_run *run, int64_t head, int64_t channel) {
    return (char *)t->data +
           fv_dtype_size(t->dtype) * (run->batch * t->stride[0] + head * t->stride[1] + run->token * t->stride[2] +
                                      run->done * row_stride(t) + channel);
}

/* The run that begins at a row and ends at or before end; count 0: the row is past its sequence's length, skip of these
 * are. */
static row_run run_at(const execution *e, int64_t row, int64_t end, int64_t *skip) {
    const int64_t tokens = e->args->x.shape[2];
    row_run run = {row / tokens, row % tokens, 0, end - row, 0};
    *skip = 0;
    if (e->even)
        return run;
    const int64_t left = fv_min(run.count, tokens - run.token),
                  named = e->args->lens ? e->args->lens[run.batch] : tokens;
    run.count = fv_max(fv_min(left, named - run.token), 0);
    *skip = left - run.count;
    return run;
}

/* Input channels that lie together: of a head of x, or, where its heads follow each other, all. */
static int64_t channels_together(const execution *e) {
    const fovea_tensor *x = &e->args->x;
    return x->stride[1] == x->shape[3] || e->linear->widen_x ? e->linear->in : x->shape[3];
}

/* How many input channels from k on a call of the gemm takes: within a block, and within what lies together. */
static int64_t step_at(const execution *e, int64_t k) {
    const int64_t channels = channels_together(e);
    return fv_min(e->choice.k_block, channels - k % channels);
}

/* The products of one panel with step channels from k on: scratch begins with them, or goes on. Meanwhile floats of
 * next are prefetched; of rows that are one tile, which wait for each weight, their own weights. */
static void multiply(const execution *e, const buffers *b, const row_run *run, int64_t panel, int64_t columns,
                     int64_t k, int64_t step, float *scratch, fv_prefetch_range *next, int64_t floats) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    const int64_t channels = channels_together(e);
    const fv_epilogue epilogue = {.start = k > 0 ? scratch : NULL, .ldstart = l->panel};
    fv_prefetch prefetch = {.streams = e->rows <= e->choice.gemm->mr};
    if (!prefetch.streams)
        fv_prefetch_take(next, floats, &prefetch);
    const float *rows = l->widen_x ? b->x + (run->first + run->done) * l->in + k
                                   : (const float *)place(x, run, k / channels, k % channels);
    const float *weights = l->widen_weights ? b->weights : (const float *)l->weights + (panel * l->in + k) * l->panel;
    e->choice.gemm->run.gemm_f32(run->count, columns, step, rows, l->widen_x ? l->in : row_stride(x), weights, l->panel,
                                 scratch, l->panel, &epilogue, &prefetch);
}

/* A block of weights of 16 bits becomes floats. */
static void widen_block(const execution *e, const buffers *b, int64_t panel, int64_t k, int64_t step) {
    const fovea_linear *l = e->linear;
    if (l->widen_weights)
        l->widen_weights(1, step * l->panel, (const uint16_t *)l->weights + (panel * l->in + k) * l->panel, 0,
                         b->weights, 0);
}

/* Rows of x of 16 bits become floats. */
static void widen_rows(const execution *e, const buffers *b, const row_run *run) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    for (int64_t head = 0; head < x->shape[1]; head++)
        l->widen_x(run->count, x->shape[3], place(x, run, head, 0), row_stride(x),
                   b->x + run->first * l->in + head * x->shape[3], l->in);
}

/* count channels of a part from at on, from products at c, and of a gated map those at up, to y. */
static void finish_channels(const execution *e, const buffers *b, const row_run *run, int64_t p, int64_t at,
                            int64_t count, const float *c, const float *up) {
    const fovea_linear *l = e->linear;
    const fv_linear_part *part = &l->parts[p], *gated = part + 1;
    const fovea_tensor *y = &e->args->y[p], *residual = e->args->residual ? &e->args->residual[p] : NULL;
    const int64_t head = at / y->shape[3], channel = at % y->shape[3];
    const fv_bias_act_residual args = {
        .bias = part->bias ? part->bias + at : NULL,
        .activation = l->activation,
        .residual = !residual           ? NULL
                    : l->widen_residual ? b->y
                                        : place(residual, run, head, channel),
        .ldresidual = !residual           ? 0
                      : l->widen_residual ? l->panel
                                          : row_stride(residual),
        .up = up,
        .ldup = l->panel,
        .up_bias = up && gated->bias ? gated->bias + at : NULL,
    };
    void *to = place(y, run, head, channel);
    if (residual && l->widen_residual)
        l->widen_residual(run->count, count, place(residual, run, head, channel), row_stride(residual), b->y, l->panel);
    l->bias_act_residual(run->count, count, c, l->panel, &args, l->narrow_y ? b->y : to,
                         l->narrow_y ? l->panel : row_stride(y));
    if (l->narrow_y)
        l->narrow_y(run->count, count, b->y, l->panel, to, row_stride(y));
}

/* From scratch to y. */
static void finish(const execution *e, const buffers *b, const row_run *run, int64_t panel, int64_t columns,
                   const float *scratch) {
    const fovea_linear *l = e->linear;
    const fv_linear_part *part = l->parts;
    const int64_t width = fv_linear_panel_out(l), all = l->gated ? columns - width : columns;
    for (int64_t done = 0, count; done < all; done += count) {
        const int64_t column = panel * width + done;
        while (column >= part->first + part->out)
            part++;
        const int64_t p = part - l->parts, at = column - part->first, channels = e->args->y[p].shape[3];
        count = fv_min(all - done, channels - at % channels);
        finish_channels(e, b, run, p, at, count, scratch + done, l->gated ? scratch + width + done : NULL);
    }
}

/* What is multiplied after a block of weights: the next one, or, after the last of an item, rows of the next item, a
 * part for each block of the last panel. */
static fv_prefetch_range next_after(const execution *e, int64_t panel, int64_t k, int64_t step,
                                    const fv_prefetch_range *rows) {
    const fovea_linear *l = e->linear;
    if (l->widen_weights || l->widen_x) /* the CPU's own prefetching sees them in order */
        return (fv_prefetch_range){NULL, NULL};
    if (rows->at < rows->end) {
        const int64_t count = (rows->end - rows->at) / l->in;
        return (fv_prefetch_range){rows->at + count * k, rows->at + count * (k + step)};
    }
    const float *all = l->weights, *weights = all + (panel * l->in + k + step) * l->panel;
    const float *end = all + l->panels * l->in * l->panel;
    return (fv_prefetch_range){weights, weights + fv_min(step * l->panel, end - weights)};
}

/* One panel for the rows of a run: all rows go through a block of weights before the next, but for the last block,
 * after which a few at a time go to y, whose lines come from farther while the next rows are computed. */
static void run_panel(const execution *e, const row_run *rows, int64_t panel, const fv_prefetch_range *next_rows,
                      const buffers *b) {
    assert(rows->count <= e->choice.row_block); /* of scratch */
    const fovea_linear *l = e->linear;
    const int64_t width = fv_linear_panel_out(l);
    const int64_t columns =
        l->gated ? width + fv_min(width, l->parts[0].out - panel * width) : fv_min(l->panel, l->out - panel * l->panel);
    int64_t k = 0, step;
    for (; (step = step_at(e, k)) < l->in - k; k += step) {
        fv_prefetch_range after = next_after(e, panel, k, step, next_rows);
        widen_block(e, b, panel, k, step);
        multiply(e, b, rows, panel, columns, k, step, b->products, &after, after.end - after.at);
    }
    widen_block(e, b, panel, k, step);
    fv_prefetch_range after = next_after(e, panel, k, step, next_rows);
    const int64_t floats = after.end - after.at;
    row_run few = *rows;
    for (int64_t left = rows->count; left > 0; left -= few.count, few.done += few.count) {
        few.count = fv_min(left, e->choice.chunk);
        float *at =
            b->products + (k > 0 ? few.done * l->panel : 0); /* beginning here, the same few lines again and again */
        multiply(e, b, &few, panel, columns, k, step, at, &after, fv_ceil_div(floats * few.count, rows->count));
        finish(e, b, &few, panel, columns, at);
    }
}

/* The rows of an item, where they lie one behind the other and would stay until they are read. */
static fv_prefetch_range rows_of(const execution *e, int64_t item) {
    const fovea_tensor *x = &e->args->x;
    const int64_t first = item / e->groups * e->row_block, in = e->linear->in;
    const bool stay = fv_linear_rows_fit(e->linear, &e->choice, e->row_block);
    if (!stay || !e->even || e->linear->widen_x || row_stride(x) != in || channels_together(e) != in)
        return (fv_prefetch_range){NULL, NULL};
    const float *at = (const float *)x->data + first * in;
    return (fv_prefetch_range){at, at + fv_min(e->row_block, e->rows - first) * in};
}

/* next: the item after it, or e->items. */
static void run_item(const execution *e, int64_t item, int64_t next, const buffers *b) {
    const fovea_linear *l = e->linear;
    const int64_t first = item / e->groups * e->row_block, end = fv_min(first + e->row_block, e->rows);
    const int64_t begin = item % e->groups * e->group, last = fv_min(begin + e->group, l->panels) - 1;
    const fv_prefetch_range none = {NULL, NULL};
    const fv_prefetch_range next_rows =
        next < e->items && next / e->groups != item / e->groups ? rows_of(e, next) : none;
    for (int64_t panel = begin; panel <= last; panel++) {
        for (int64_t row = first, skip; row < end;) {
            row_run run = run_at(e, row, end, &skip);
            run.first = row - first;
            if (run.count > 0 && l->widen_x && panel == begin)
                widen_rows(e, b, &run);
            if (run.count > 0)
                run_panel(e, &run, panel, panel == last ? &next_rows : &none, b);
            row += run.count + skip;
        }
    }
}

static int64_t claim(execution *e, int64_t *end) { return fv_claim(&e->next, e->items, e->tasks, end); }

static float *floats_in(char *scratch, int64_t at) { return (float *)(void *)(scratch + at); }

static void items_task(void *arg, int64_t task) {
    execution *e = arg;
    char *scratch = e->scratches + task * e->scratch.bytes;
    const buffers b = {floats_in(scratch, e->scratch.products), floats_in(scratch, e->scratch.x),
                       floats_in(scratch, e->scratch.weights), floats_in(scratch, e->scratch.y)};
    for (int64_t end, item = claim(e, &end); item < end; item = claim(e, &end))
        for (; item < end; item++)
            run_item(e, item, item + 1 < end ? item + 1 : e->items, &b);
}

/* Threads for which there are too few panels get more blocks, and as many one as another, if that leaves them rows
 * enough for what they share, the reading of all weights. */
int64_t fv_linear_block(const fovea_linear *l, const fv_linear_choice *choice, int64_t all) {
    enum { ENOUGH = 64 };
    const int64_t threads = l->ctx->threads.count, mr = choice->gemm->mr, most = choice->row_block;
    int64_t blocks = fv_ceil_div(all, most);
    if (threads > 1)
        blocks = fv_max(blocks, fv_min(fv_ceil_div(choice->items * threads, l->panels), all / ENOUGH));
    for (int64_t rows = fv_ceil_div(all, blocks); blocks > 1 && rows >= ENOUGH; rows -= mr)
        if (fv_ceil_div(all, rows) % threads == 0) {
            blocks = fv_ceil_div(all, rows);
            break;
        }
    return fv_min(fv_round_up(fv_ceil_div(all, blocks), mr), most);
}

/* Where there are fewer blocks of rows than items wanted for each thread, their panels are dealt to several items. */
static void deal(execution *e) {
    const fovea_linear *l = e->linear;
    const int64_t wanted = e->choice.items * l->ctx->threads.count;
    e->row_block = fv_linear_block(l, &e->choice, e->rows);
    const int64_t row_blocks = fv_ceil_div(e->rows, e->row_block);
    const int64_t groups = l->ctx->threads.count == 1 || row_blocks >= wanted ? 1 : fv_ceil_div(wanted, row_blocks);
    e->group = fv_ceil_div(l->panels, groups);
    e->groups = fv_ceil_div(l->panels, e->group);
    e->items = row_blocks * e->groups;
}

void fv_linear_execute_chosen(const fovea_linear *l, const fovea_linear_args *args, const fv_linear_choice *choice,
                              void *workspace) {
    assert(choice->gemm && choice->k_block > 0 && choice->items > 0 && choice->cache_scale > 0);
    assert(0 < choice->chunk && choice->chunk <= choice->row_block);
    const uintptr_t gap = (uintptr_t)workspace % FV_ALIGNMENT;
    execution e = {.linear = l,
                   .args = args,
                   .choice = *choice,
                   .scratch = fv_linear_lay_out(l, choice),
                   .scratches = (char *)workspace + (gap ? FV_ALIGNMENT - gap : 0),
                   .rows = args->x.shape[0] * args->x.shape[2],
                   .even = !args->lens && evenly(&args->x)};
    for (int64_t p = 0; p < l->part_count; p++)
        e.even = e.even && evenly(&args->y[p]) && (!args->residual || evenly(&args->residual[p]));
    deal(&e);
    e.tasks = fv_min(e.items, l->ctx->threads.count);
    fv_parallel(&l->ctx->threads, e.tasks, &(fv_work){.task = items_task, .arg = &e});
}

void fv_linear_run(const fovea_linear *l, const fovea_linear_args *args, void *workspace) {
    const int64_t rows = args->x.shape[0] * args->x.shape[2];
    if (rows == 0)
        return;
    const fv_linear_choice choice = fv_linear_choose(l, rows, NULL);
    if (l->ctx->log)
        fv_shape_log_linear(l->ctx->log, rows, l->in, l->out, l->ctx->threads.count);
    fv_linear_execute_chosen(l, args, &choice, workspace);
}

fovea_status fovea_linear_execute(const fovea_linear *linear, const fovea_linear_args *args, void *workspace,
                                  size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!linear || !args)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", linear ? "args" : "linear");
    fovea_linear_args own_args;
    fovea_status status = fv_linear_read_args(args, &own_args);
    if (status == FOVEA_OK)
        status = fv_linear_check_args(linear, &own_args, workspace, workspace_size);
    if (status != FOVEA_OK)
        return status;
    void *own = NULL;
    if (!workspace) {
        own = workspace = malloc((size_t)linear->bytes);
        if (!own)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes",
                           (long long)linear->bytes);
    }
    fv_linear_run(linear, &own_args, workspace);
    free(own);
    return FOVEA_OK;
}
