/* Chooses what is prefetched (prefetch.h). Many short sequences are bound by loading their tensors from beyond L2; a
 * tile of few rows reads keys and values at memory bandwidth if memory is never idle. Figures:
 * docs/lab/attention.md. */
#include "attention/flash/prefetch.h"

#include "attention/visible/visible.h"
#include "core/core.h"

#include <assert.h>

enum {
    LINE = 16, /* floats */
    SPARSE = 4 /* steps of k for each line, where a call prefetches as little as it can (UNROLL of multiply_tile.h) */
};

/* A range of `bytes` bytes, rounded down to whole floats. */
static fv_prefetch_range floats_at(const void *at, int64_t bytes) {
    return (fv_prefetch_range){at, (const float *)at + bytes / (int64_t)sizeof(float)};
}

/* The rows from first on, as far as they are contiguous. */
static void set_rows(fv_prefetch_part *part, const fovea_tensor *t, const fv_sequence *sequence, fv_row_place first,
                     int64_t rows) {
    const int64_t channels = t->shape[3];
    const fv_range tokens = sequence->tokens;
    part->key = part->end = 0;
    part->side = NULL;
    part->range.at = part->range.end = NULL;
    if (!t->data || t->stride[2] != channels)
        return;
    if (t->stride[1] != (tokens.end - tokens.begin) * channels)
        rows = fv_min(rows, tokens.end - first.token);
    const int64_t size = fv_dtype_size(t->dtype);
    part->range = floats_at((const char *)t->data + size * (sequence->entry * t->stride[0] + first.head * t->stride[1] +
                                                            first.token * t->stride[2]),
                            size * rows * channels);
}

/* Keys of a block's head; interleaved, whole groups. */
static void set_keys(fv_prefetch_part *part, const fv_kv_side *side, const fv_row_block *at, fv_range keys) {
    part->key = fv_kv_first_of(side, keys.begin);
    part->end = keys.end;
    part->side = side;
    part->sequence = at->batch;
    part->head = at->kv_head;
    part->range.at = part->range.end = NULL;
}

static void clear_part(fv_prefetch_part *part) {
    part->range.at = part->range.end = NULL;
    part->key = part->end = 0;
}

/* Goes on to the next span that is contiguous; false if there is none. */
static bool next_run(fv_prefetch_part *part) {
    while (part->range.at == part->range.end && part->key < part->end) {
        const fv_kv_span span = fv_kv_long_span_of(part->side, part->sequence, part->head, part->key, part->end);
        part->range = floats_at(span.at, fv_dtype_bytes(part->side->dtype, fv_kv_contiguous(part->side, &span)));
        part->key += span.count;
    }
    return part->range.at != part->range.end;
}

/* Is there anything left? */
static inline bool part_left(fv_prefetch_part *part) {
    return part->range.at != part->range.end || (part->key < part->end && next_run(part));
}

static void part_take(fv_prefetch_part *part, int64_t floats, fv_prefetch *prefetch) {
    if (part_left(part))
        fv_prefetch_take(&part->range, floats, prefetch);
}

/* Floats of it, if all are contiguous. */
static int64_t part_floats(const fv_prefetch_part *part) {
    return part->range.end - part->range.at + (part->side ? (part->end - part->key) * part->side->channels : 0);
}

/* The part behind those that there are: it counts if there is anything in it. */
static fv_prefetch_part *open_part(fv_prefetch_queue *queue) {
    assert(queue->count < (int)(sizeof queue->part / sizeof queue->part[0]));
    return &queue->part[queue->count];
}

static void add_keys(fv_prefetch_queue *queue, const fv_kv_side *side, const fv_row_block *at, fv_range keys) {
    fv_prefetch_part *part = open_part(queue);
    set_keys(part, side, at, keys);
    queue->count += part_left(part);
}

/* Queries or outputs of a block. */
static void add_rows(fv_prefetch_queue *queue, const fovea_attention_plan *plan, const fovea_tensor *t,
                     const fv_sequence *sequence, const fv_row_block *at) {
    fv_prefetch_part *part = open_part(queue);
    set_rows(part, t, sequence, fv_attention_place(plan->group, sequence, at->kv_head, at->first_row), at->rows);
    queue->count += part_left(part);
}

static void clear(fv_prefetch_queue *queue) {
    clear_part(&queue->outputs);
    clear_part(&queue->with_scores);
    clear_part(&queue->with_values);
    queue->count = queue->now = 0;
    queue->floats = -1;
    queue->credit = 0;
    queue->one_tile = false;
}

void fv_prefetch_nothing(fv_prefetch_queue *queue) { clear(queue); }

void fv_prefetch_open(fv_prefetch_queue *queue, const fv_schedule *schedule, int64_t block) {
    const fovea_attention_plan *plan = schedule->plan;
    const fovea_attention_args *args = schedule->args;
    clear(queue);
    if (!plan->fetches_next || block >= schedule->blocks)
        return;
    const fv_row_block at = fv_schedule_block(schedule, block);
    const fv_sequence sequence = fv_attention_sequence(&plan->desc, args, at.batch);
    if (sequence.q_len == 0)
        return;
    add_rows(queue, plan, &args->q, &sequence, &at);
    if (at.first_row == 0) {
        const fv_range keys = {0, sequence.kv_len};
        add_keys(queue, &schedule->kv->k, &at, keys);
        add_keys(queue, &schedule->kv->v, &at, keys);
    }
    add_rows(queue, plan, &args->out, &sequence, &at);
}

/* The keys from the first that the block's first row sees to the last that its last row sees: both ends of a row's
 * range move in one direction along a sequence. Under most masks they do, too. */
static fv_range keys_of(const fovea_attention_plan *plan, const fv_mask *mask, const fv_sequence *sequence,
                        const fv_row_block *at) {
    const fv_row_place first = fv_attention_place(plan->group, sequence, at->kv_head, at->first_row),
                       last = fv_attention_place(plan->group, sequence, at->kv_head, at->first_row + at->rows - 1);
    const bool one_head = first.head == last.head;
    const int64_t from = fv_max(one_head ? first.token : 0, sequence->q_start);
    const int64_t to = fv_min(one_head ? last.token : INT64_MAX, sequence->q_start + sequence->q_len - 1);
    if (from > to)
        return (fv_range){0, 0};
    const fv_range ends[] = {fv_attention_range(&plan->desc, sequence, from),
                             fv_attention_range(&plan->desc, sequence, to)};
    if (!mask || !mask->kind)
        return fv_range_union(ends[0], ends[1]);
    const fv_mask_rows rows[] = {fv_mask_row(mask, sequence, (fv_row_place){first.head, from}),
                                 fv_mask_row(mask, sequence, (fv_row_place){last.head, to})};
    const int64_t start = sequence->kv_start;
    fv_range all = {0, 0};
    for (int i = 0; i < 2; i++)
        if (ends[i].begin < ends[i].end)
            all = fv_range_union(
                all, fv_mask_bounds(mask, &rows[i], (fv_range){ends[i].begin + start, ends[i].end + start}));
    return all.begin < all.end ? (fv_range){all.begin - start, all.end - start} : all;
}

/* The part of keys_of() within the segment that begins at `key`; key < 0: within its first segment. */
static fv_range keys_of_segment(const fovea_attention_plan *plan, const fv_mask *mask, const fv_sequence *sequence,
                                const fv_row_block *at, int64_t key) {
    const fv_range all = keys_of(plan, key < 0 ? mask : NULL, sequence, at);
    const int64_t first = key < 0 ? fv_round_down(all.begin, FV_SEGMENT) : key;
    const int64_t begin = fv_max(first, all.begin), end = fv_min(first + FV_SEGMENT, all.end);
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

void fv_prefetch_segment(fv_prefetch_queue *queue, const fv_schedule *schedule, const fv_mask *mask, int64_t block,
                         int64_t key, int64_t tiles) {
    const fovea_attention_plan *plan = schedule->plan;
    clear(queue);
    if (block >= schedule->blocks || tiles < 1)
        return;
    const fv_row_block at = fv_schedule_block(schedule, block);
    const fv_sequence sequence = fv_attention_sequence(&plan->desc, schedule->args, at.batch);
    const fv_range keys = keys_of_segment(plan, mask, &sequence, &at, key);
    if (keys.begin == keys.end)
        return;
    if (key < 0)
        add_rows(queue, plan, &schedule->args->q, &sequence, &at);
    add_keys(queue, &schedule->kv->k, &at, keys);
    add_keys(queue, &schedule->kv->v, &at, keys);
    int64_t all = 0;
    for (int i = 0; i < queue->count; i++)
        all += part_floats(&queue->part[i]);
    const int64_t calls = tiles * (fv_ceil_div(FV_SEGMENT, plan->panel) + 1); /* a panel each, and the values */
    queue->floats = all / calls + all / calls / 8 + 1; /* some more: the last call may come too early for its credit */
}

void fv_prefetch_one_tile(fv_prefetch_queue *queue, const fv_schedule *schedule, const fv_mask *mask, int64_t block,
                          fv_range keys, int64_t following, int64_t next_key) {
    clear(queue);
    queue->one_tile = true;
    fv_row_block at = fv_schedule_block(schedule, block);
    set_keys(&queue->with_scores, &schedule->kv->v, &at, keys);
    if (following >= schedule->blocks)
        return;
    at = fv_schedule_block(schedule, following);
    const fv_sequence sequence = fv_attention_sequence(&schedule->plan->desc, schedule->args, at.batch);
    keys = keys_of_segment(schedule->plan, mask, &sequence, &at, next_key);
    set_keys(&queue->with_values, &schedule->kv->k, &at, keys);
}

void fv_prefetch_outputs(fv_prefetch_queue *queue, const fovea_attention_args *args, const fv_sequence *sequence,
                         fv_row_place first, int64_t rows) {
    set_rows(&queue->outputs, &args->out, sequence, first, rows);
}

/* At most a line a step of k. Where it is to come evenly, some calls prefetch a line every few steps, the others
 * nothing: one that ends in the midst of a call is slower. */
static void take(fv_prefetch_queue *queue, const fv_kernel *multiply, int64_t rows, int64_t k, fv_prefetch *prefetch) {
    const int64_t lines = fv_ceil_div(rows, multiply->mr) * k;
    const bool evenly = queue->floats >= 0;
    queue->credit += evenly ? queue->floats : 0;
    if (part_left(&queue->outputs)) {
        part_take(&queue->outputs, lines * LINE, prefetch);
        return;
    }
    const int64_t floats = evenly ? lines / SPARSE * LINE : lines * LINE;
    if (queue->now >= queue->count || (evenly && queue->credit < floats))
        return;
    queue->credit -= evenly ? floats : 0;
    part_take(&queue->part[queue->now], floats, prefetch);
    queue->now += !part_left(&queue->part[queue->now]);
}

void fv_prefetch_with_scores(fv_prefetch_queue *queue, const fovea_attention_plan *plan, const fv_kernel *product,
                             int64_t rows, int64_t keys, fv_prefetch *prefetch) {
    const fovea_attention_desc *d = &plan->desc;
    if (queue->one_tile) /* the values of these keys */
        part_take(&queue->with_scores, fv_dtype_bytes(d->v_dtype, keys * d->value_dim) / (int64_t)sizeof(float),
                  prefetch);
    else
        take(queue, product, rows, d->head_dim, prefetch);
}

void fv_prefetch_with_values(fv_prefetch_queue *queue, const fovea_attention_plan *plan, const fv_kernel *product,
                             int64_t rows, int64_t keys, fv_prefetch *prefetch) {
    if (queue->one_tile)
        part_take(&queue->with_values, FV_SEGMENT * plan->desc.head_dim, prefetch);
    else if (!prefetch->streams)
        take(queue, product, rows, keys, prefetch);
}
