/* Several linear maps in one go (linear.h), such as those of experts: their items are numbered together, job after job,
 * and claimed by threads from one counter. So few rows of many maps, and one row of few, keep all threads busy. A
 * thread reads descriptions of the job that it is at, and takes the next ones in their order. */
#include "core/core.h"
#include "linear/execution.h"
#include "threads/threads.h"

#include <assert.h>

enum { SHARES = 4 }; /* times the items that a map of its own has: fewer would leave threads waiting at the end */

typedef struct going {
    const fv_linear_jobs *jobs;
    int64_t items, tasks;
    _Atomic int64_t next;
} going;

/* A job as a thread executes it. */
typedef struct opened {
    fv_linear_execution e;
    fovea_linear_args args;
    fovea_tensor y[2];
} opened;

static fovea_tensor rows_from(const fovea_tensor *t, const fv_linear_job *job) {
    fovea_tensor part = *t;
    part.data = (char *)t->data + fv_dtype_size(t->dtype) * job->first * t->stride[2];
    part.shape[2] = job->rows;
    return part;
}

static fv_linear_choice choice_of(const fv_linear_jobs *jobs, const fv_linear_job *job) {
    fv_linear_choice choice = fv_linear_heuristics(job->linear, jobs->ctx->threads.count, job->rows, NULL);
    if (jobs->index && !fv_linear_integers(job->linear))
        choice.gather = FV_LINEAR_GATHER_YES;
    return choice;
}

static void open_job(const fv_linear_jobs *jobs, const fv_linear_job *job, const fovea_linear *l, opened *o) {
    *o = (opened){.y = {jobs->places ? jobs->y[0] : rows_from(&jobs->y[0], job)},
                  .e = {.ctx = jobs->ctx,
                        .linear = l,
                        .choice = choice_of(jobs, job),
                        .activation = l->activation,
                        .rows = job->rows,
                        .tokens = job->rows,
                        .row_block = job->row_block,
                        .group = job->group,
                        .groups = job->groups,
                        .panels = l->panels,
                        .items = fv_ceil_div(job->rows, job->row_block) * job->groups,
                        .even = true}};
    if (l->part_count > 1)
        o->y[1] = rows_from(&jobs->y[1], job);
    o->args.x = jobs->index ? jobs->x : rows_from(&jobs->x, job);
    o->args.y = o->y;
    o->e.args = &o->args;
    o->e.index = jobs->index ? jobs->index + job->first : NULL;
    o->e.places = jobs->places ? jobs->places + job->first : NULL;
    o->e.scratch = fv_linear_lay_out(l, &o->e.choice);
    fv_linear_select_path(&o->e);
    assert(o->e.scratch.bytes <= jobs->thread_bytes);
}

static void jobs_task(void *arg, int64_t task) {
    going *g = arg;
    const fv_linear_jobs *jobs = g->jobs;
    const int flushed = fv_float_flush_half(0);
    const fovea_context *ctx = jobs->ctx;
    const fv_linear_job *job = NULL;
    const int node = ctx->cpu.nodes.count > 1 ? fv_node_here(&ctx->cpu.nodes) : 0;
    opened o;
    fv_linear_buffers b;
    for (int64_t end, item; (item = fv_claim(&g->next, g->items, g->tasks, &end)) < end;)
        for (; item < end; item++) {
            const fv_linear_job *at = job ? job : jobs->job, *const last = jobs->job + jobs->count - 1;
            while (at < last && at[1].first_item <= item)
                at++;
            if (at != job) {
                fv_tiles_leave(job ? fv_linear_over_tiles(&o.e) : NULL);
                job = at;
                open_job(jobs, job, job->linear->copies[node] ? job->linear->copies[node] : job->linear, &o);
                b = fv_linear_buffers_in(&o.e.scratch, jobs->scratches + task * jobs->thread_bytes);
                fv_tiles_enter(fv_linear_over_tiles(&o.e));
            }
            const int64_t own = item - job->first_item;
            fv_linear_run_item(&o.e, own, item + 1 < end ? own + 1 : o.e.items, &b);
        }
    fv_tiles_leave(job ? fv_linear_over_tiles(&o.e) : NULL);
    fv_float_flush_half(flushed);
}

/* Rows of each job go in blocks of equal length; where these are too few for all threads, their panels are dealt to
 * several items. */
static void deal(const fv_linear_jobs *jobs, going *g) {
    const int64_t threads = jobs->ctx->threads.count;
    int64_t blocks = 0, target = 1;
    for (int64_t i = 0; i < jobs->count; i++) {
        fv_linear_job *job = &jobs->job[i];
        const fv_linear_choice choice = choice_of(jobs, job);
        job->row_block = fv_linear_block(job->linear, &choice, 1, job->rows, job->linear->panels);
        blocks += fv_ceil_div(job->rows, job->row_block);
        target = threads > 1 ? fv_max(target, SHARES * choice.items * threads) : 1;
    }
    for (int64_t i = 0; i < jobs->count; i++) {
        fv_linear_job *job = &jobs->job[i];
        const int64_t panels = job->linear->panels;
        job->group = fv_ceil_div(panels, fv_ceil_div(target, blocks));
        job->groups = fv_ceil_div(panels, job->group);
        job->first_item = g->items;
        g->items += fv_ceil_div(job->rows, job->row_block) * job->groups;
    }
}

void fv_linear_run_jobs(const fv_linear_jobs *jobs) {
    going g = {.jobs = jobs};
    deal(jobs, &g);
    g.tasks = fv_min(g.items, jobs->ctx->threads.count);
    fv_parallel(&jobs->ctx->threads, g.tasks, &(fv_work){.task = jobs_task, .arg = &g});
}
