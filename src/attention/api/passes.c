/* The work of a plan, dealt to threads (passes.h).
 *
 * Every task claims items from a counter until none is left: causal rows are uneven, and a pool may run the tasks one
 * after another. Units of the first pass are blocks and, of those that are split, chunks of their keys. Passes over
 * these follow: the merge, then what outputs.h writes of them. Sums of keys always have a pass of their own: a key's
 * sum goes over all rows.
 */
#include "attention/api/passes.h"

#include "attention/outputs/outputs.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "threads/threads.h"

#include <stdatomic.h>

typedef struct execution execution;

/* Computes an item of a pass, before next, one that its task has claimed, or NULL. */
typedef void run_item(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next);

struct execution {
    const fovea_attention_plan *plan;
    fv_schedule schedule;
    char *scratches, *partials;
    fv_pass over;
    int64_t count; /* items of the pass */
    run_item *run; /* what is done with each */
    /* One, or, where key heads are on nodes, one for each. Each counts all items, and passes over those of others. */
    int queues;
    _Atomic int64_t *next;                        /* [queues] */
    _Atomic int64_t tiles, visited, full, paired; /* fv_block_count */
};

static int64_t claim(execution *e, int queue, int64_t *end) {
    return fv_schedule_claim(&e->schedule, e->count, &e->next[queue], end);
}

/* Opens the block of an item that was split, after its chunks: their lse stays among the partial results. */
static void open_split(const execution *e, fv_block *block, const fv_work_item *item) {
    fv_block_open(block, item->block, e->schedule.blocks);
    block->lse = fv_schedule_partial(&e->schedule, item, e->partials, 0).m;
}

/* Segments of a chunk. */
static fv_range chunk_of(fv_range segments, const fv_work_item *item) {
    const int64_t run = fv_ceil_div(segments.end - segments.begin, item->chunks);
    const int64_t begin = fv_min(segments.begin + item->chunk * run, segments.end);
    return (fv_range){begin, fv_min(begin + run, segments.end)};
}

static void run_work(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next) {
    const bool goes_on = next && next->block == item->block;
    fv_block_open(block, item->block, next && !goes_on ? next->block : e->schedule.blocks);
    if (!item->split) {
        fv_block_run(block);
        if (fv_asked_rows(block->args))
            fv_outputs_write_rows(block);
        if (fv_asked_views(block->args))
            fv_outputs_write_views(block, 0, fv_outputs_segments(block));
        return;
    }
    const fv_range visible = fv_block_segments(block), chunk = chunk_of(visible, item);
    for (int64_t segment = fv_block_next_listed(block, chunk.begin, chunk.end); segment < chunk.end;
         segment = fv_block_next_listed(block, segment + 1, chunk.end)) {
        const fv_partial partial = fv_schedule_partial(&e->schedule, item, e->partials, segment - visible.begin);
        fv_block_run_segment(block, segment, goes_on ? visible.end : chunk.end, &partial);
    }
}

static void run_merge(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next) {
    (void)next;
    open_split(e, block, item);
    const int64_t part = fv_ceil_div(block->rows, item->chunks), first = fv_min(item->chunk * part, block->rows);
    fv_block_merge(block, item, e->partials, (fv_range){first, fv_min(first + part, block->rows)});
}

/* Writes scores and weights for all segments of the sequence, those that no row sees included. */
static void run_views(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next) {
    (void)next;
    open_split(e, block, item);
    const fv_range chunk = chunk_of((fv_range){0, fv_outputs_segments(block)}, item);
    fv_outputs_write_views(block, chunk.begin, chunk.end);
}

static void run_rows(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next) {
    (void)next;
    open_split(e, block, item);
    fv_outputs_write_rows(block);
}

static void run_key_sums(const execution *e, fv_block *block, const fv_work_item *item, const fv_work_item *next) {
    fv_key_sums sums;
    (void)next;
    fv_outputs_sums_begin(&sums);
    for (int64_t i = 0; i < item->blocks; i++) {
        fv_block_open(block, item->block + i, e->schedule.blocks);
        fv_outputs_sums_add(block, item->chunk, &sums);
    }
    fv_outputs_sums_end(block, item->chunk, &sums);
}

/* A thread begins with the queue of its own node. */
static void work(void *arg, int64_t task) {
    execution *e = arg;
    const int here = e->queues == 1 ? 0 : fv_node_here(e->schedule.kv->nodes->nodes);
    fv_block block;
    fv_scratch scratch;
    fv_scratch_at(e->plan, e->scratches + task * e->plan->scratch, &scratch);
    fv_block_init(&block, &e->schedule, &scratch);
    for (int turn = 0; turn < e->queues; turn++) {
        const int node = (here + turn) % e->queues;
        for (int64_t end, first = claim(e, node, &end); first < end; first = claim(e, node, &end)) {
            fv_work_item item = fv_schedule_item(&e->schedule, e->over, first);
            for (int64_t i = first; i < end; i++) {
                const fv_work_item next = i + 1 < end ? fv_schedule_item(&e->schedule, e->over, i + 1) : item;
                if (e->queues == 1 || fv_schedule_node(&e->schedule, &item) == node)
                    e->run(e, &block, &item, i + 1 < end ? &next : NULL);
                item = next;
            }
        }
    }
    if (e->schedule.args->stats) {
        atomic_fetch_add(&e->tiles, block.count.tiles);
        atomic_fetch_add(&e->visited, block.count.visited);
        atomic_fetch_add(&e->full, block.count.full);
        atomic_fetch_add(&e->paired, block.count.paired);
    }
}

static void enter(void *arg) { fv_tiles_enter(((const execution *)arg)->plan->tiles); }
static void leave(void *arg) { fv_tiles_leave(((const execution *)arg)->plan->tiles); }

static void pass(execution *e, fv_pass over, run_item *run) {
    for (int node = 0; node < e->queues; node++)
        atomic_store(&e->next[node], 0);
    e->count = fv_schedule_pass(&e->schedule, over);
    e->over = over;
    e->run = run;
    fv_parallel(&e->plan->ctx->threads, fv_min(e->count, e->plan->tasks),
                &(fv_work){.task = work, .enter = enter, .leave = leave, .arg = e});
}

static void write_stats(execution *e) {
    const int64_t visited = atomic_load(&e->visited);
    const fovea_attention_stats own = {.visited_tiles = visited,
                                       .skipped_tiles = atomic_load(&e->tiles) - visited,
                                       .full_tiles = atomic_load(&e->full),
                                       .fast_tiles = atomic_load(&e->paired),
                                       .split_blocks = e->schedule.split};
    fv_struct_write(FV_STRUCT(fovea_attention_stats), e->schedule.args->stats, &own);
}

void fv_attention_write_stats(fovea_attention_stats *stats, const fovea_attention_stats *a,
                              const fovea_attention_stats *b, int64_t prefixes) {
    const fovea_attention_stats sum = {.visited_tiles = a->visited_tiles + b->visited_tiles,
                                       .skipped_tiles = a->skipped_tiles + b->skipped_tiles,
                                       .full_tiles = a->full_tiles + b->full_tiles,
                                       .fast_tiles = a->fast_tiles + b->fast_tiles,
                                       .shared_prefixes = prefixes,
                                       .split_blocks = a->split_blocks + b->split_blocks};
    fv_struct_write(FV_STRUCT(fovea_attention_stats), stats, &sum);
}

void fv_attention_run_view(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv,
                           void *workspace) {
    if (plan->ctx->log && plan->row_blocks > 0)
        fv_shape_log_attention(plan->ctx->log, &plan->desc, plan->ctx->threads.count);
    char *base = fv_aligned(workspace);
    const bool named = plan->desc.arithmetic != FOVEA_ARITHMETIC_EXACT; /* in a mode that is part of it */
    const fv_float_mode mode = named ? fv_float_plain() : fv_float_mode_now();
    _Atomic int64_t next[FV_NODES];
    execution e = {.plan = plan,
                   .next = next,
                   .schedule = fv_schedule_make(plan, args, kv, base + plan->table),
                   .queues = kv->nodes ? kv->nodes->nodes->count : 1,
                   .scratches = base,
                   .partials = base + plan->partials};
    pass(&e, FV_PASS_WORK, run_work);
    if (e.schedule.split > 0) {
        pass(&e, FV_PASS_MERGE, run_merge);
        if (fv_asked_rows(args))
            pass(&e, FV_PASS_SPLIT, run_rows);
        if (fv_asked_views(args))
            pass(&e, FV_PASS_CHUNKS, run_views);
    }
    if (fv_asked_key_sums(args)) {
        fv_outputs_sums_clear(args);
        pass(&e, FV_PASS_KEYS, run_key_sums);
    }
    if (args->stats)
        write_stats(&e);
    if (named)
        fv_float_mode_set(&mode);
}
