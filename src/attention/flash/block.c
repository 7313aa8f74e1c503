/* The flash loop (block.h): ISA-free; all arithmetic is in the kernels it calls. A block is cut into tiles of
 * up to tile_rows rows, which go through a segment one after the other (tile.h).
 */
#include "attention/flash/asked.h"
#include "attention/flash/score.h"
#include "attention/flash/state_rows.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------- rows and their memory -- */

void fv_block_init(fv_block *x, const fv_schedule *schedule, const fv_scratch *scratch) {
    const fovea_attention_plan *plan = schedule->plan;
    const fovea_attention_args *args = schedule->args;
    const fv_kv *kv = schedule->kv;
    *x = (fv_block){
        .schedule = schedule,
        .plan = plan,
        .args = args,
        .to = scratch,
        .mask = kv->attended ? fv_mask_of_flags(kv->attended, kv->attended_stride, plan->desc.kv_len)
                             : fv_mask_of_args(&plan->desc, args, plan->ops->mask_to_bits),
        .bias = fv_tensor_repeated(plan->desc.has_bias ? &args->bias : &args->mask),
        .lse = scratch->lse,
        .queries = {.plan = &plan->sources, .from = &args->q},
        .keys = {.plan = &plan->sources, .side = &kv->k, .packed = scratch->k, .gathered = scratch->gathered},
        .values = {.plan = &plan->sources, .side = &kv->v, .keys_layout = kv->k.layout, .copied = scratch->v},
    };
    for (int form = 0; form < FV_QUERY_FORMS; form++)
        x->queries.form[form] = scratch->queries[form];
}

/* The last segment that rows go through: even those that see no key go through one. */
static int64_t last_segment(const fv_block *x, int64_t first, int64_t count) {
    int64_t end = x->seen.uniform ? x->seen.range.end : 0;
    for (int64_t i = first; i < first + count && !x->seen.uniform; i++)
        end = fv_max(end, x->to->ranges[i].end);
    return fv_max(fv_ceil_div(end, FV_SEGMENT) - 1, fv_block_segments(x).begin);
}

/* Deals the rows evenly to tiles. */
static void deal_tiles(fv_block *x) {
    const int64_t low = x->rows / x->tile_count, higher = x->rows % x->tile_count; /* that many have a row more */
    for (int64_t i = 0, row = 0; i < x->tile_count; i++) {
        const int64_t rows = low + (i < higher);
        x->to->tiles[i] = (fv_tile_rows){row, rows, last_segment(x, row, rows), FV_OUTPUT_NONE};
        row += rows;
    }
}

/* Finds the keys that the rows see: by lengths, causality and window, narrowed by the mask. */
static void see_rows(fv_block *x) {
    const fovea_attention_desc *d = &x->plan->desc;
    fv_range *const ranges = x->to->ranges;
    fv_range all = {0, 0};
    bool uniform = true;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        run = fv_run_of_head(x, row, x->rows - row);
        const int64_t token = fv_place_of(x, row).token;
        const fv_range first = fv_attention_range(d, &x->sequence, token),
                       last = fv_attention_range(d, &x->sequence, token + run - 1);
        /* Both ends move one way along a sequence: where first and last row see the same keys, so do all. */
        const bool same = first.begin < first.end && first.begin == last.begin && first.end == last.end;
        for (int64_t i = row; i < row + run; i++)
            ranges[i] = same ? first : fv_attention_range(d, &x->sequence, token + i - row);
        for (int64_t i = row; i < row + (same ? 1 : run); i++)
            all = fv_range_union(all, ranges[i]);
        uniform = uniform && same && first.begin == ranges[0].begin && first.end == ranges[0].end;
    }
    x->seen = (fv_rows_seen){.range = all, .uniform = uniform, .ascending = fv_block_one_head(x)};
    if (x->mask.kind)
        fv_block_narrow(x);
    const fv_range segments = fv_block_segments(x);
    x->seen.single_segment = segments.end - segments.begin == 1;
}

/* Does hardware prefetch what the block reads: interleaved keys and values, all in the order in which they lie, for so
 * few rows that products take less time than memory? Figures: docs/lab/decode.md. */
static bool hardware_prefetches(const fv_block *x) {
    return x->keys.source->streams && x->values.source->streams && x->rows <= x->plan->sources.stream_rows;
}

void fv_block_open(fv_block *x, int64_t row_block, int64_t next) {
    const fovea_attention_plan *plan = x->plan;
    const fv_row_block at = fv_schedule_block(x->schedule, row_block);
    x->row_block = row_block;
    x->next_row_block = next;
    x->sequence = fv_attention_sequence(&plan->desc, x->args, at.batch);
    x->kv_head = at.kv_head;
    x->first = fv_attention_place(plan->group, &x->sequence, at.kv_head, at.first_row);
    x->rows = at.rows;
    x->tile_count = fv_ceil_div(x->rows, plan->choice.tile_rows);
    if (fv_block_is_padding(x)) {
        x->seen = (fv_rows_seen){.padding = true};
        return;
    }
    see_rows(x);
    x->queries.sequence = &x->sequence;
    x->queries.first = x->first;
    x->queries.rows = x->values.rows = x->rows;
    x->keys.queries = &x->queries;
    x->keys.sequence = x->values.sequence = x->sequence.index;
    x->keys.head = x->values.head = x->kv_head;
    x->keys.one_tile = x->tile_count == 1;
    fv_queries_begin(&x->queries, plan->sources.keys[x->keys.side->layout]->knows_norms && fv_score_asks_norms(x));
    fv_keys_begin(&x->keys);
    fv_queries_ensure_norm(&x->queries);
    fv_values_begin(&x->values, x->seen.range);
    fv_prefetch_open(&x->queue, x->schedule, next);
    if (hardware_prefetches(x))
        fv_prefetch_nothing(&x->queue);
    deal_tiles(x);
}

/* Rows of the state go where running sums are, and back. */
static void copy_state(const fv_block *x, int64_t first, int64_t rows, bool back) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.value_dim, stride = p->o_stride;
    for (int64_t row = first, run; row < first + rows; row += run) {
        run = fv_run_of_head(x, row, first + rows - row);
        const fv_state_rows s = fv_attention_state_at(&p->desc, x->args->state, &x->sequence, fv_place_of(x, row));
        const size_t bytes = (size_t)run * sizeof(float);
        memcpy(back ? s.max : x->to->max + row, back ? x->to->max + row : s.max, bytes);
        memcpy(back ? s.sum : x->to->sum + row, back ? x->to->sum + row : s.sum, bytes);
        if (back)
            p->ops->copy(run, dim, x->to->o + row * stride, stride, s.o, dim);
        else
            p->ops->copy(run, dim, s.o, dim, x->to->o + row * stride, stride);
    }
}

/* Running M, L and O of rows before the first segment. */
static void begin_rows(fv_block *x, fv_range rows) {
    if (!x->args->state) {
        fv_no_keys(x->to->max + rows.begin, x->to->sum + rows.begin, rows.end - rows.begin);
        return;
    }
    copy_state(x, rows.begin, rows.end - rows.begin, false);
    for (int64_t i = 0; i < x->tile_count; i++)
        x->to->tiles[i].output = FV_OUTPUT_RUNNING;
}

/* Merges the sinks into the rows of a tile, the last of all: m = sink, l = 1, o = 0. */
static void merge_sinks(const fv_block *x, const fv_tile_rows *tile) {
    const fovea_attention_plan *p = x->plan;
    const int64_t first = tile->first, rows = tile->count, n = p->desc.value_dim;
    const fovea_tensor *out = &x->args->out;
    const bool there = tile->output == FV_OUTPUT_IN_PLACE;
    for (int64_t i = 0; i < rows; i++) {
        x->to->m[i] = x->args->sinks[fv_place_of(x, first + i).head];
        x->to->l[i] = 1.0f;
    }
    p->ops->merge(rows, x->to->m, x->to->l, x->to->max + first, x->to->sum + first, x->to->a, x->to->b);
    memset(x->to->chain, 0, (size_t)n * sizeof(float)); /* o of every row */
    for (int64_t i = 0, run; i < rows; i += run) {
        run = fv_run_of_head(x, first + i, rows - i);
        p->ops->accumulate(run, n, x->to->chain, 0, x->to->a + i, x->to->b + i,
                           there ? fv_row_element(x, out, first + i) : x->to->o + (first + i) * p->o_stride,
                           there ? out->stride[2] : p->o_stride);
    }
}

/* The end of a tile: the state, if there is one; then outputs and lse, if they are asked for. */
static void finish(const fv_block *x, const fv_tile_rows *tile) {
    const fovea_attention_plan *p = x->plan;
    const int64_t first = tile->first, rows = tile->count;
    const fovea_tensor *out = &x->args->out, *lse = &x->args->lse;
    const bool needs_lse = lse->data || fv_asked_needs_lse(x->args), there = tile->output == FV_OUTPUT_IN_PLACE;
    if (x->args->state)
        copy_state(x, first, rows, true);
    if (!out->data)
        return;
    if (tile->output == FV_OUTPUT_NONE)
        memset(x->to->o + first * p->o_stride, 0, (size_t)(rows * p->o_stride) * sizeof(float));
    if (p->desc.has_sinks)
        merge_sinks(x, tile);
    for (int64_t row = first, run; row < first + rows; row += run) {
        run = fv_run_of_head(x, row, first + rows - row);
        void *to = fv_row_address(x, out, row);
        float *const own = x->to->o + row * p->o_stride;
        fv_narrow_bf16_fn *const narrow = fv_ops_narrow(p->ops, out->dtype);
        float *const o = there ? to : own;
        const int64_t stride = there ? out->stride[2] : p->o_stride;
        if (fv_sources_values(&p->sources)->rotated)
            fv_i4_rotate(run, p->desc.value_dim, 1, o, stride, o, stride);
        p->ops->finish(run, p->desc.value_dim, o, stride, x->to->max + row, x->to->sum + row, narrow ? own : to,
                       narrow ? p->o_stride : out->stride[2], needs_lse ? x->lse + row : NULL, 1);
        if (narrow)
            narrow(run, p->desc.value_dim, own, p->o_stride, to, out->stride[2]);
        for (int64_t i = 0; i < run && lse->data; i++)
            *fv_row_element(x, lse, row + i) = x->lse[row + i];
    }
    if (p->desc.has_sinks || x->args->state) /* neither is in rows without a query */
        fv_block_pad(x, first, rows);
}

static void finish_all(const fv_block *x) {
    for (int64_t i = 0; i < x->tile_count; i++)
        finish(x, &x->to->tiles[i]);
}

/* -------------------------------------------------------------------------------------------------- whole blocks -- */

/* The first segment behind one in which something is done: the next that the block sees, or the last of a tile. */
static int64_t next_stop(const fv_block *x, int64_t index, int64_t next) {
    for (int64_t i = 0; i < x->tile_count; i++)
        next = x->to->tiles[i].last > index ? fv_min(next, x->to->tiles[i].last) : next;
    return next;
}

/* While tiles go through a segment, what comes after it is prefetched: of segment next, if that is before end. */
static void fetch_next(fv_block *x, int64_t index, int64_t next, int64_t end) {
    const bool more = next < end;
    const int64_t block = more ? x->row_block : x->next_row_block, key = more ? next * FV_SEGMENT : -1;
    int64_t tiles = 0;
    if (x->plan->fetches_next || hardware_prefetches(x))
        return;
    if (x->tile_count == 1) {
        const fv_range visible = fv_range_in_segment(x->seen.range, index);
        fv_prefetch_one_tile(&x->queue, x->schedule, &x->mask, x->row_block,
                             (fv_range){index * FV_SEGMENT + visible.begin, index * FV_SEGMENT + visible.end}, block,
                             key);
        return;
    }
    for (int64_t i = 0; i < x->tile_count; i++)
        tiles += x->to->tiles[i].last >= index;
    fv_prefetch_segment(&x->queue, x->schedule, &x->mask, block, key, tiles);
}

/* All that there are: those that are visited count themselves. */
static void count_tiles(fv_block *x) { x->count.tiles += x->tile_count * fv_ceil_div(x->sequence.kv_len, FV_SEGMENT); }

void fv_block_run(fv_block *x) {
    const fv_range segments = fv_block_segments(x);
    count_tiles(x);
    if (x->seen.padding) {
        fv_block_pad(x, 0, x->rows);
        return;
    }
    begin_rows(x, (fv_range){0, x->rows});
    int64_t next = fv_block_next_visible(x, segments.begin, segments.end);
    for (int64_t index = next_stop(x, segments.begin - 1, next); index < segments.end;
         index = next_stop(x, index, next)) {
        const bool visible = index == next;
        if (visible) {
            next = fv_block_next_visible(x, index + 1, segments.end);
            fv_segment_open(x, index, true);
            fetch_next(x, index, next, segments.end);
        }
        for (fv_tile_rows *tile = x->to->tiles; tile < x->to->tiles + x->tile_count; tile++) {
            if (index > tile->last)
                continue;
            if (visible && index == tile->last && x->tile_count > 1 && !x->plan->fetches_next) {
                const fv_row_place at = fv_place_of(x, tile->first);
                fv_prefetch_outputs(&x->queue, x->args, &x->sequence, at, tile->count);
            }
            if (visible)
                fv_tile_run(x, tile, index);
            if (index == tile->last) /* while what the tile wrote is in the first-level cache */
                finish(x, tile);
        }
    }
    if (segments.begin >= segments.end)
        finish_all(x);
}

void fv_block_run_segment(fv_block *x, int64_t index, int64_t end, const fv_partial *partial) {
    if (fv_block_sees(x, index)) {
        fv_segment_open(x, index, true);
        fetch_next(x, index, fv_block_next_visible(x, index + 1, end), end);
    }
    for (int64_t i = 0; i < x->tile_count; i++)
        fv_tile_run_partial(x, &x->to->tiles[i], index, partial);
}

void fv_block_merge(fv_block *x, const fv_work_item *item, char *partials, fv_range rows) {
    const fovea_attention_plan *p = x->plan;
    const fv_range segments = fv_block_segments(x);
    if (rows.begin == 0)
        count_tiles(x);
    if (x->seen.padding) {
        if (rows.begin == 0)
            fv_block_pad(x, 0, x->rows);
        return;
    }
    begin_rows(x, rows);
    for (int64_t i = 0; i < x->tile_count; i++) { /* a and b have the size of a tile */
        const fv_range of_tile = {x->to->tiles[i].first, x->to->tiles[i].first + x->to->tiles[i].count};
        const fv_range part = fv_range_common(of_tile, rows);
        const int64_t count = part.end - part.begin;
        float *const o = x->to->o + part.begin * p->o_stride;
        fv_tile_rows tile = {part.begin, count, 0, x->to->tiles[i].output};
        if (count == 0)
            continue;
        if (tile.output == FV_OUTPUT_NONE)
            memset(o, 0, (size_t)(count * p->o_stride) * sizeof(float));
        tile.output = FV_OUTPUT_RUNNING;
        for (int64_t segment = fv_block_next_listed(x, segments.begin, segments.end); segment < segments.end;
             segment = fv_block_next_listed(x, segment + 1, segments.end)) {
            const fv_partial from = fv_schedule_partial(x->schedule, item, partials, segment - segments.begin);
            p->ops->merge(count, from.m + part.begin, from.l + part.begin, x->to->max + part.begin,
                          x->to->sum + part.begin, x->to->a, x->to->b);
            p->ops->accumulate(count, p->desc.value_dim, from.o + part.begin * p->o_stride, p->o_stride, x->to->a,
                               x->to->b, o, p->o_stride);
        }
        finish(x, &tile);
    }
}
