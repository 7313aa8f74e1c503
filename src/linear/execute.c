/* Execution of linear maps (linear.h): row blocks times groups of panels, claimed by threads from a counter.
 *
 * An item multiplies its rows of x by one panel after another. The rows stay in the second-level cache, or are read
 * again for each panel (heuristics.c); a panel is read once for each row block. With few rows, reading panels takes
 * most of the time, and memory bandwidth is the bound. Rows go through a panel (panel.c) in runs whose places are
 * evenly apart. */
#include "core/core.h"
#include "linear/execution.h"
#include "threads/threads.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef fv_linear_execution execution;

/* Are the rows of all sequences evenly apart? */
static bool evenly(const fovea_tensor *t) {
    return t->shape[0] == 1 || t->shape[2] == 1 || t->stride[0] == t->shape[2] * t->stride[2];
}

/* The run that begins at a row and ends at or before end; count 0: the row is past its sequence's length, skip of these
 * are. */
static fv_row_run run_at(const execution *e, int64_t row, int64_t end, int64_t *skip) {
    const int64_t tokens = e->tokens;
    fv_row_run run = {row / tokens, row % tokens, 0, end - row, 0};
    *skip = 0;
    if (e->even)
        return run;
    const int64_t left = fv_min(run.count, tokens - run.token),
                  named = e->args->lens ? e->args->lens[run.batch] : tokens;
    run.count = fv_max(fv_min(left, named - run.token), 0);
    *skip = left - run.count;
    return run;
}

/* The same of rows as they are read from x. */
static fv_row_run run_of_x(const execution *e, int64_t row, int64_t end, int64_t *skip) {
    if (!e->index)
        return run_at(e, row, end, skip);
    const int64_t tokens = e->args->x.shape[2], at = e->index[row];
    *skip = 0;
    return (fv_row_run){at / tokens, at % tokens, 0, 1, 0};
}

/* The rows of an item, where they lie one behind the other and would stay until they are read. */
static fv_prefetch_range rows_of(const execution *e, int64_t item) {
    const fovea_tensor *x = &e->args->x;
    const int64_t first = item / e->groups * e->row_block, in = e->linear->in;
    const bool stay = fv_linear_rows_fit(e->linear, &e->choice, e->row_block);
    if (!stay || !e->even || e->gathers || fv_linear_row_stride(x) != in || fv_linear_together(e) != in)
        return (fv_prefetch_range){NULL, NULL};
    const float *at = (const float *)x->data + first * in;
    return (fv_prefetch_range){at, at + fv_min(e->row_block, e->rows - first) * in};
}

/* Rows of an item in the types that its panels need. */
static void read_rows(const execution *e, int64_t first, int64_t end, fv_linear_buffers *b) {
    fv_exponent_range all = fv_exponents_none();
    if (e->integers && b->integers_first == first)
        return;
    b->integers_first = first;
    for (int pass = 0; pass < 2; pass++) {
        const bool pairs = pass == 0;
        if (pairs ? !e->pairs && !e->integers : !e->gathers || e->integers || b->all_paired)
            continue;
        for (int64_t row = first, skip; row < end;) {
            fv_row_run run = run_of_x(e, row, end, &skip);
            run.first = row - first;
            if (run.count > 0 && e->integers)
                fv_linear_read_integers(e, b, &run);
            else if (run.count > 0 && pairs)
                fv_linear_read_pairs(e, b, &run, &all);
            else if (run.count > 0)
                fv_linear_read_floats(e, b, &run);
            row += run.count + skip;
        }
        b->all_paired = pairs && !e->integers && fv_pairs_exact(all, e->linear->weights.range);
    }
}

void fv_linear_run_item(const execution *e, int64_t item, int64_t next, fv_linear_buffers *b) {
    const int64_t first = item / e->groups * e->row_block, end = fv_min(first + e->row_block, e->rows);
    const int64_t dealt = item % e->groups * e->group, begin = e->first_panel + dealt;
    const int64_t last = e->first_panel + fv_min(dealt + e->group, e->panels) - 1;
    const fv_prefetch_range none = {NULL, NULL};
    const fv_prefetch_range next_rows =
        next < e->items && next / e->groups != item / e->groups ? rows_of(e, next) : none;
    b->all_paired = false;
    read_rows(e, first, end, b);
    const int64_t together = fv_linear_panels(e);
    for (int64_t panel = begin, panels; panel <= last; panel += panels) {
        panels = fv_min(together, last + 1 - panel);
        for (int64_t row = first, skip; row < end;) {
            fv_row_run run = run_at(e, row, end, &skip);
            run.first = row - first;
            if (run.count > 0)
                fv_linear_run_panels(e, &run, panel, panels, panel + panels > last ? &next_rows : &none, b);
            row += run.count + skip;
        }
    }
}

static int64_t claim(const execution *e, int64_t *end) {
    return fv_claim(&e->counters->next[e->queue], e->items, e->tasks, end);
}

static float *floats_in(char *scratch, int64_t at) { return (float *)(void *)(scratch + at); }

fv_linear_buffers fv_linear_buffers_in(const fv_linear_scratch *s, char *scratch) {
    return (fv_linear_buffers){.products = floats_in(scratch, s->products),
                               .x = floats_in(scratch, s->x),
                               .pairs = floats_in(scratch, s->pairs),
                               .weights = floats_in(scratch, s->weights),
                               .y = floats_in(scratch, s->y),
                               .integers = (uint32_t *)(void *)(scratch + s->integers),
                               .integers_first = -1,
                               .scales = floats_in(scratch, s->scales),
                               .words = (uint32_t *)(void *)(scratch + s->words),
                               .exponents = (fv_exponent_range *)(void *)(scratch + s->exponents)};
}

static void items_task(void *arg, int64_t task) {
    const execution *e = arg;
    const int flushed = fv_float_flush_half(0);
    fv_linear_buffers b = fv_linear_buffers_in(&e->scratch, e->scratches + task * e->scratch.bytes);
    for (int64_t end, item = claim(e, &end); item < end; item = claim(e, &end))
        for (; item < end; item++)
            fv_linear_run_item(e, item, item + 1 < end ? item + 1 : e->items, &b);
    atomic_fetch_add(&e->counters->products, b.products_done);
    atomic_fetch_add(&e->counters->paired, b.paired_done);
    fv_float_flush_half(flushed);
}

/* Threads for which there are too few panels get more blocks, and as many one as another, if that leaves them rows
 * enough for what they share, the reading of all weights. */
int64_t fv_linear_block(const fovea_linear *l, const fv_linear_choice *choice, int64_t threads, int64_t all,
                        int64_t panels) {
    const int64_t mr = fv_linear_tile_rows(l, choice), most = choice->row_block;
    int64_t blocks = fv_ceil_div(all, most);
    if (threads > 1)
        blocks = fv_max(blocks, fv_min(fv_ceil_div(choice->items * threads, panels), all / choice->split_rows));
    for (int64_t rows = fv_ceil_div(all, blocks); blocks > 1 && rows >= choice->split_rows; rows -= mr)
        if (fv_ceil_div(all, rows) % threads == 0) {
            blocks = fv_ceil_div(all, rows);
            break;
        }
    return fv_min(fv_round_up(fv_ceil_div(all, blocks), mr), most);
}

/* Where there are fewer blocks of rows than items intended for each thread, their panels are dealt to several items. */
int64_t fv_linear_group(const fv_linear_choice *choice, int64_t threads, int64_t row_block, int64_t rows,
                        int64_t panels) {
    const int64_t blocks = fv_ceil_div(rows, row_block), target = choice->items * threads;
    return fv_ceil_div(panels, threads == 1 || blocks >= target ? 1 : fv_ceil_div(target, blocks));
}

void fv_linear_select_path(execution *e) {
    const fovea_linear *l = e->linear;
    e->gathers = fv_linear_gathers(e);
    e->pairs = fv_linear_pairs(e);
    if (fv_linear_integers(l))
        e->integers = e->rows <= e->choice.few_rows ? l->few : fv_linear_many(l, &e->choice);
}

const fv_kernel *fv_linear_over_tiles(const execution *e) {
    return e->integers ? e->integers : e->pairs ? e->linear->pairs : NULL;
}

static void enter(void *arg) { fv_tiles_enter(fv_linear_over_tiles(arg)); }
static void leave(void *arg) { fv_tiles_leave(fv_linear_over_tiles(arg)); }

/* Leaves what a node has of it. */
static void restrict_to(execution *e, int node) {
    const int64_t *end = e->linear->placement.end, first = fv_max(e->first_panel, node > 0 ? end[node - 1] : 0);
    e->panels = fv_max(fv_min(e->first_panel + e->panels, end[node]) - first, 0);
    e->first_panel = first;
    e->items /= e->groups;
    e->groups = fv_ceil_div(e->panels, e->group);
    e->items *= e->groups;
    e->queue = node;
}

/* items_task() with weights on several nodes, those of the thread's own node first. Cold: to be small. */
static __attribute__((cold)) void nodes_task(void *arg, int64_t task) {
    const execution *e = arg;
    const bool spread = e->linear->placement.how == FOVEA_PLACEMENT_SPREAD;
    const int count = e->linear->placement.nodes, here = fv_node_here(&e->ctx->cpu.nodes);
    for (int i = 0; i < (spread ? count : 1); i++) {
        execution own = *e;
        if (spread)
            restrict_to(&own, (here + i) % count);
        else if (own.linear->copies[here])
            own.linear = own.linear->copies[here];
        items_task(&own, task);
    }
}

void fv_linear_apply_chosen(const fovea_context *ctx, const fovea_linear *l, const fovea_linear_args *args,
                            const fv_linear_choice *choice, void *workspace) {
    const int threads = ctx->threads.count;
    assert(choice->gemm && choice->k_block > 0 && choice->items > 0 && choice->cache_scale > 0);
    assert(0 < choice->chunk && choice->chunk <= choice->row_block);
    const bool named = l->arithmetic == FOVEA_ARITHMETIC_BF16_TILE; /* in a mode that is part of it */
    const fv_float_mode mode = named ? fv_float_plain() : fv_float_mode_now();
    fv_linear_counters counters = {0};
    execution e = {.ctx = ctx,
                   .linear = l,
                   .counters = &counters,
                   .args = args,
                   .choice = *choice,
                   .activation = args->has_activation && !l->gated ? (fv_activation)args->activation : l->activation,
                   .scratch = fv_linear_lay_out(l, choice),
                   .scratches = fv_aligned(workspace),
                   .rows = args->x.shape[0] * args->x.shape[2],
                   .tokens = args->x.shape[2],
                   .even = !args->lens && evenly(&args->x)};
    const int64_t first = fv_linear_next_part(l, args, 0);
    e.first_panel = l->parts[first].first / l->panel;
    for (int64_t p = first; p < l->part_count; p = fv_linear_next_part(l, args, p + 1)) {
        e.even = e.even && evenly(&args->y[p]) && (!args->residual || evenly(&args->residual[p]));
        e.panels = fv_ceil_div(l->parts[p].first + l->parts[p].out, fv_linear_panel_out(l)) - e.first_panel;
    }
    fv_linear_select_path(&e);
    e.row_block = fv_linear_block(l, choice, threads, e.rows, e.panels);
    e.group = fv_linear_group(choice, threads, e.row_block, e.rows, e.panels);
    e.groups = fv_ceil_div(e.panels, e.group);
    e.items = fv_ceil_div(e.rows, e.row_block) * e.groups;
    e.tasks = fv_min(e.items, threads);
    const bool on_nodes = l->placement.how > FOVEA_PLACEMENT_NODE && e.tasks > 1;
    fv_parallel(&ctx->threads, e.tasks,
                &(fv_work){.task = on_nodes ? nodes_task : items_task, .enter = enter, .leave = leave, .arg = &e});
    if (named)
        fv_float_mode_set(&mode);
    if (args->stats) {
        const fovea_linear_stats own = {.products = atomic_load(&counters.products),
                                        .fast_products = atomic_load(&counters.paired)};
        fv_struct_write(FV_STRUCT(fovea_linear_stats), args->stats, &own);
    }
}

void fv_linear_run(const fovea_context *ctx, const fovea_linear *l, const fovea_linear_args *args, void *workspace) {
    const int threads = ctx->threads.count;
    const int64_t rows = args->x.shape[0] * args->x.shape[2];
    if (rows == 0)
        return;
    const fv_linear_choice choice = fv_linear_heuristics(l, threads, rows, NULL);
    if (ctx->log)
        fv_shape_log_linear(ctx->log, l->weight_dtype, rows, l->in, l->out, threads);
    fv_linear_apply_chosen(ctx, l, args, &choice, workspace);
}

size_t fovea_linear_apply_workspace_size(const fovea_context *ctx, const fovea_linear *linear) {
    return ctx && linear ? (size_t)fv_linear_workspace(ctx->threads.count, linear->thread_bytes) : 0;
}

fovea_status fovea_linear_apply(const fovea_context *ctx, const fovea_linear *linear, const fovea_linear_args *args,
                                void *workspace, size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !linear || !args)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : linear ? "args" : "linear");
    const size_t bytes = fovea_linear_apply_workspace_size(ctx, linear);
    fovea_linear_args own_args;
    fovea_status status = fv_linear_read_args(args, &own_args);
    if (status == FOVEA_OK)
        status = fv_linear_check_args(linear, &own_args, workspace, workspace_size, bytes);
    if (status != FOVEA_OK)
        return status;
    void *own = NULL;
    if (!workspace) {
        own = workspace = malloc(bytes);
        if (!own)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", bytes);
    }
    fv_linear_run(ctx, linear, &own_args, workspace);
    free(own);
    return FOVEA_OK;
}
