/* The flash loop (block.h): ISA-free; all arithmetic is in the kernels it calls. A block is cut into tiles of
 * up to tile_rows rows, which go through a segment one after the other (tile.h).
 */
#include "attention/flash/asked.h"
#include "attention/flash/decode.h"
#include "attention/flash/score.h"
#include "attention/flash/state_rows.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------- rows and their memory -- */

/* Values are copied if they must become floats (16 bits), if their rows do not begin with cache lines, or if rows are
 * so far apart that they compete for few sets of the first-level cache. */
static bool copies_values(const fv_block *x) {
    const fv_kv_side *v = &x->kv->v;
    if (x->plan->desc.v_dtype == FOVEA_DTYPE_I8)
        return false;
    if (x->plan->kernels.widen_v)
        return !x->decode || !x->plan->kernels.value_few;
    if (x->rows < FV_COPY_ROWS || x->range.begin == x->range.end)
        return false;
    const fv_kv_span span = fv_kv_span_of(v, x->sequence.index, x->kv_head, x->range.begin, x->range.end);
    const uintptr_t first = (uintptr_t)span.at, step = (uintptr_t)(span.stride * fv_dtype_size(v->dtype));
    return (first | step) % FV_ALIGNMENT != 0 || step >= 2048 || fv_kv_short_pages(v);
}

void fv_block_init(fv_block *x, const fv_schedule *schedule, char *scratch) {
    const fv_attention_scratch *s = &schedule->plan->scratch;
    *x = (fv_block){
        .schedule = schedule,
        .plan = schedule->plan,
        .args = schedule->args,
        .kv = schedule->kv,
        .mask =
            schedule->kv->attended
                ? fv_mask_of_flags(schedule->kv->attended, schedule->kv->attended_stride, schedule->plan->desc.kv_len)
                : fv_mask_of_args(&schedule->plan->desc, schedule->args, schedule->plan->kernels.mask_to_bits),
        .bias = fv_tensor_repeated(schedule->plan->desc.has_bias ? &schedule->args->bias : &schedule->args->mask),
        .q = (float *)(void *)(scratch + s->q),
        .pairs_q = (float *)(void *)(scratch + s->pairs),
        .integers = (fv_i8_word *)(void *)(scratch + s->integers),
        .o = (float *)(void *)(scratch + s->o),
        .max = (float *)(void *)(scratch + s->max),
        .sum = (float *)(void *)(scratch + s->sum),
        .lse = (float *)(void *)(scratch + s->lse),
        .tiles = (fv_tile_rows *)(void *)(scratch + s->tiles),
        .ranges = (fv_range *)(void *)(scratch + s->ranges),
        .k = (float *)(void *)(scratch + s->k),
        .v = (float *)(void *)(scratch + s->v),
        .gathered = (float *)(void *)(scratch + s->gathered),
        .key_rows = (float *)(void *)(scratch + s->key_rows),
        .chain = (float *)(void *)(scratch + s->chain),
        .line = (float *)(void *)(scratch + s->line),
        .p = (float *)(void *)(scratch + s->p),
        .s = (float *)(void *)(scratch + s->s),
        .lanes = (float *)(void *)(scratch + s->lanes),
        .bits = (fv_keybits *)(void *)(scratch + s->bits),
        .groups = (fv_range *)(void *)(scratch + s->groups),
        .m = (float *)(void *)(scratch + s->m),
        .l = (float *)(void *)(scratch + s->l),
        .a = (float *)(void *)(scratch + s->a),
        .b = (float *)(void *)(scratch + s->b),
    };
}

/* The last segment that rows go through: even those that see no key go through one. */
static int64_t last_segment(const fv_block *x, int64_t first, int64_t count) {
    int64_t end = x->uniform ? x->range.end : 0;
    for (int64_t i = first; i < first + count && !x->uniform; i++)
        end = fv_max(end, x->ranges[i].end);
    return fv_max(fv_ceil_div(end, FV_SEGMENT) - 1, fv_block_segments(x).begin);
}

/* Deals the rows evenly to tiles. */
static void deal_tiles(fv_block *x) {
    x->tile_count = fv_ceil_div(x->rows, x->plan->choice.tile_rows);
    const int64_t low = x->rows / x->tile_count, higher = x->rows % x->tile_count; /* that many have a row more */
    for (int64_t i = 0, row = 0; i < x->tile_count; i++) {
        const int64_t rows = low + (i < higher);
        x->tiles[i] = (fv_tile_rows){row, rows, last_segment(x, row, rows), FV_OUTPUT_NONE};
        row += rows;
    }
}

void fv_block_open(fv_block *x, int64_t number, int64_t next) {
    const fovea_attention_plan *plan = x->plan;
    const fovea_attention_args *args = x->args;
    const fv_row_block at = fv_schedule_block(x->schedule, number);
    x->number = number;
    x->following = next;
    x->sequence = fv_attention_sequence(&plan->desc, args, at.batch);
    x->kv_head = at.kv_head;
    x->first = fv_attention_place(plan->group, &x->sequence, at.kv_head, at.first_row);
    x->rows = at.rows;
    x->padding = fv_block_is_padding(x);
    if (x->padding) {
        x->range = (fv_range){0, 0};
        x->tile_count = fv_ceil_div(x->rows, plan->choice.tile_rows);
        return;
    }
    fv_prefetch_open(&x->queue, x->schedule, next);
    x->pairs =
        plan->pairs && fv_float_nearest() && (!plan->tiles || x->rows >= FV_TILE_ROWS) && !fv_kv_short_pages(&x->kv->k);
    fv_queries_open(x);
    fv_range all = {0, 0};
    bool uniform = true;
    x->one_head = fv_run_of_head(x, 0, x->rows) == x->rows;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        run = fv_run_of_head(x, row, x->rows - row);
        const int64_t token = fv_place_of(x, row).token;
        const fv_range first = fv_attention_range(&plan->desc, &x->sequence, token),
                       last = fv_attention_range(&plan->desc, &x->sequence, token + run - 1);
        /* Both ends move one way along a sequence: where first and last row see the same keys, so do all. */
        const bool same = first.begin < first.end && first.begin == last.begin && first.end == last.end;
        for (int64_t i = row; i < row + run; i++)
            x->ranges[i] = same ? first : fv_attention_range(&plan->desc, &x->sequence, token + i - row);
        for (int64_t i = row; i < row + (same ? 1 : run); i++)
            all = fv_range_union(all, x->ranges[i]);
        uniform = uniform && same && first.begin == x->ranges[0].begin && first.end == x->ranges[0].end;
    }
    x->range = all;
    x->uniform = uniform;
    x->ascending = x->one_head;
    if (x->mask.kind)
        fv_block_narrow(x);
    fv_decode_open(x);
    x->copy_values = copies_values(x);
    x->value_pairs = x->copy_values && x->pairs && plan->kernels.value_pairs && !fv_kv_short_pages(&x->kv->v);
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
        memcpy(back ? s.max : x->max + row, back ? x->max + row : s.max, bytes);
        memcpy(back ? s.sum : x->sum + row, back ? x->sum + row : s.sum, bytes);
        if (back)
            p->kernels.copy(run, dim, x->o + row * stride, stride, s.o, dim);
        else
            p->kernels.copy(run, dim, s.o, dim, x->o + row * stride, stride);
    }
}

/* Running M, L and O of rows before the first segment. */
static void begin_rows(fv_block *x, fv_range rows) {
    if (!x->args->state) {
        fv_no_keys(x->max + rows.begin, x->sum + rows.begin, rows.end - rows.begin);
        return;
    }
    copy_state(x, rows.begin, rows.end - rows.begin, false);
    for (int64_t i = 0; i < x->tile_count; i++)
        x->tiles[i].output = FV_OUTPUT_RUNNING;
}

/* Merges the sinks into the rows of a tile, the last of all: m = sink, l = 1, o = 0. */
static void merge_sinks(const fv_block *x, const fv_tile_rows *tile) {
    const fovea_attention_plan *p = x->plan;
    const int64_t first = tile->first, rows = tile->count, n = p->desc.value_dim;
    const fovea_tensor *out = &x->args->out;
    const bool there = tile->output == FV_OUTPUT_IN_PLACE;
    for (int64_t i = 0; i < rows; i++) {
        x->m[i] = x->args->sinks[fv_place_of(x, first + i).head];
        x->l[i] = 1.0f;
    }
    p->kernels.merge(rows, x->m, x->l, x->max + first, x->sum + first, x->a, x->b);
    memset(x->chain, 0, (size_t)n * sizeof(float)); /* o of every row */
    for (int64_t i = 0, run; i < rows; i += run) {
        run = fv_run_of_head(x, first + i, rows - i);
        p->kernels.accumulate(run, n, x->chain, 0, x->a + i, x->b + i,
                              there ? fv_row_element(x, out, first + i) : x->o + (first + i) * p->o_stride,
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
        memset(x->o + first * p->o_stride, 0, (size_t)(rows * p->o_stride) * sizeof(float));
    if (p->desc.has_sinks)
        merge_sinks(x, tile);
    for (int64_t row = first, run; row < first + rows; row += run) {
        run = fv_run_of_head(x, row, first + rows - row);
        void *to = fv_row_address(x, out, row);
        float *const own = x->o + row * p->o_stride;
        const bool narrow = p->kernels.narrow_out;
        p->kernels.finish(run, p->desc.value_dim, there ? to : own, there ? out->stride[2] : p->o_stride, x->max + row,
                          x->sum + row, narrow ? own : to, narrow ? p->o_stride : out->stride[2],
                          needs_lse ? x->lse + row : NULL, 1);
        if (narrow)
            p->kernels.narrow_out(run, p->desc.value_dim, own, p->o_stride, to, out->stride[2]);
        for (int64_t i = 0; i < run && lse->data; i++)
            *fv_row_element(x, lse, row + i) = x->lse[row + i];
    }
    if (p->desc.has_sinks || x->args->state) /* neither is in rows without a query */
        fv_block_pad(x, first, rows);
}

static void finish_all(const fv_block *x) {
    for (int64_t i = 0; i < x->tile_count; i++)
        finish(x, &x->tiles[i]);
}

/* -------------------------------------------------------------------------------------------------- whole blocks -- */

/* The first segment behind one in which something is done: the next that the block sees, or the last of a tile. */
static int64_t next_stop(const fv_block *x, int64_t index, int64_t next) {
    for (int64_t i = 0; i < x->tile_count; i++)
        next = x->tiles[i].last > index ? fv_min(next, x->tiles[i].last) : next;
    return next;
}

/* While tiles go through a segment, what comes after it is prefetched: of segment next, if that is before end. */
static void fetch_next(fv_block *x, int64_t index, int64_t next, int64_t end) {
    const bool more = next < end;
    const int64_t block = more ? x->number : x->following, key = more ? next * FV_SEGMENT : -1;
    int64_t tiles = 0;
    if (x->plan->fetches_next)
        return;
    if (x->tile_count == 1) {
        const fv_range visible = fv_range_in_segment(x->range, index);
        fv_prefetch_one_tile(&x->queue, x->schedule, &x->mask, x->number,
                             (fv_range){index * FV_SEGMENT + visible.begin, index * FV_SEGMENT + visible.end}, block,
                             key);
        return;
    }
    for (int64_t i = 0; i < x->tile_count; i++)
        tiles += x->tiles[i].last >= index;
    fv_prefetch_segment(&x->queue, x->schedule, &x->mask, block, key, tiles);
}

/* All that there are: those that are visited count themselves. */
static void count_tiles(fv_block *x) { x->count.tiles += x->tile_count * fv_ceil_div(x->sequence.kv_len, FV_SEGMENT); }

void fv_block_run(fv_block *x) {
    const fv_range segments = fv_block_segments(x);
    count_tiles(x);
    if (x->padding) {
        fv_block_pad(x, 0, x->rows);
        return;
    }
    begin_rows(x, (fv_range){0, x->rows});
    x->single_segment = segments.end - segments.begin == 1 && !x->args->state;
    int64_t next = fv_block_next_visible(x, segments.begin, segments.end);
    for (int64_t index = next_stop(x, segments.begin - 1, next); index < segments.end;
         index = next_stop(x, index, next)) {
        const bool visible = index == next;
        fv_segment segment;
        if (visible) {
            next = fv_block_next_visible(x, index + 1, segments.end);
            fv_segment_open(x, index, &segment);
            fetch_next(x, index, next, segments.end);
        }
        for (fv_tile_rows *tile = x->tiles; tile < x->tiles + x->tile_count; tile++) {
            if (index > tile->last)
                continue;
            if (visible && index == tile->last && x->tile_count > 1 && !x->plan->fetches_next) {
                const fv_row_place at = fv_place_of(x, tile->first);
                fv_prefetch_outputs(&x->queue, x->args, &x->sequence, at, tile->count);
            }
            if (visible)
                fv_tile_run(x, tile, &segment);
            if (index == tile->last) /* while what the tile wrote is in the first-level cache */
                finish(x, tile);
        }
    }
    if (segments.begin >= segments.end)
        finish_all(x);
}

void fv_block_run_segment(fv_block *x, int64_t index, int64_t end, const fv_partial *partial) {
    fv_segment segment = {.index = index};
    if (fv_block_sees(x, index)) {
        fv_segment_open(x, index, &segment);
        fetch_next(x, index, fv_block_next_visible(x, index + 1, end), end);
    }
    for (int64_t i = 0; i < x->tile_count; i++)
        fv_tile_run_partial(x, &x->tiles[i], &segment, partial);
}

void fv_block_merge(fv_block *x, const fv_work_item *item, char *partials, fv_range rows) {
    const fovea_attention_plan *p = x->plan;
    const fv_range segments = fv_block_segments(x);
    if (rows.begin == 0)
        count_tiles(x);
    if (x->padding) {
        if (rows.begin == 0)
            fv_block_pad(x, 0, x->rows);
        return;
    }
    begin_rows(x, rows);
    for (int64_t i = 0; i < x->tile_count; i++) { /* a and b have the size of a tile */
        const fv_range of_tile = {x->tiles[i].first, x->tiles[i].first + x->tiles[i].count};
        const fv_range part = fv_range_common(of_tile, rows);
        const int64_t count = part.end - part.begin;
        float *const o = x->o + part.begin * p->o_stride;
        fv_tile_rows tile = {part.begin, count, 0, x->tiles[i].output};
        if (count == 0)
            continue;
        if (tile.output == FV_OUTPUT_NONE)
            memset(o, 0, (size_t)(count * p->o_stride) * sizeof(float));
        tile.output = FV_OUTPUT_RUNNING;
        for (int64_t segment = fv_block_next_listed(x, segments.begin, segments.end); segment < segments.end;
             segment = fv_block_next_listed(x, segment + 1, segments.end)) {
            const fv_partial from = fv_schedule_partial(x->schedule, item, partials, segment - segments.begin);
            p->kernels.merge(count, from.m + part.begin, from.l + part.begin, x->max + part.begin, x->sum + part.begin,
                             x->a, x->b);
            p->kernels.accumulate(count, p->desc.value_dim, from.o + part.begin * p->o_stride, p->o_stride, x->a, x->b,
                                  o, p->o_stride);
        }
        finish(x, &tile);
    }
}
