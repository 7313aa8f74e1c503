/* Work of a call (schedule.h). */
#include "attention/plan/schedule.h"

#include "threads/threads.h"

#include <assert.h>
#include <math.h>

enum {
    SHARES = 4,    /* of a thread: none waits long for another */
    FULL_ROWS = 8, /* fewer take as long: keys come no faster from memory */
    MANY = 16      /* blocks of a thread: the last of them is no great part */
};

/* Memory for partial results at most, in floats: what lacks it is not split. */
static const int64_t most_floats = (int64_t)16 << 20;

/* ------------------------------------------------------------------------------------------------ blocks of rows -- */

static fv_head_blocks blocks_of_head(const fovea_attention_plan *plan, int64_t tokens) {
    const int64_t partition = fv_attention_partition(plan, tokens);
    const int64_t rows = fv_ceil_div(partition, fv_ceil_div(partition, plan->choice.block_rows));
    const int64_t parts = fv_ceil_div(partition, rows);
    return (fv_head_blocks){partition, rows, parts, plan->group * tokens / partition * parts};
}

static fv_row_block block_of(const fv_scheduled_sequence *sequence, int64_t kv_heads, int64_t block) {
    const fv_head_blocks *b = &sequence->head;
    const int64_t before = block / b->count, of_head = block % b->count, done = of_head % b->parts * b->rows;
    return (fv_row_block){.batch = sequence->first + before / kv_heads,
                          .kv_head = before % kv_heads,
                          .first_row = of_head / b->parts * b->partition + done,
                          .rows = fv_min(b->rows, b->partition - done)};
}

/* ------------------------------------------------------------------------------------------------- split blocks -- */

/* Floats of the partial results of a block's segment. */
static int64_t segment_floats(const fovea_attention_plan *plan, int64_t rows) { return rows * (plan->o_stride + 2); }

/* The most segments of a sequence that one block sees. */
static int64_t visible_of(const fovea_attention_plan *plan, int64_t segments) {
    return fv_min(segments, plan->visible_segments);
}

/* Where blocks are split as lengths ask for it, only those of one tile are. */
static int64_t most_rows(const fovea_attention_plan *plan) {
    return plan->choice.split_segments > 0 ? plan->choice.block_rows
                                           : fv_min(plan->choice.block_rows, plan->choice.tile_rows);
}

int64_t fv_schedule_partial_floats(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t forced = plan->choice.split_segments, threads = plan->ctx->threads.count;
    const bool alike = !d->packed && d->batch == 1;
    int64_t blocks = plan->row_blocks, floats;
    if (forced < 0 ||
        (forced == 0 && (threads == 1 || plan->visible_segments < 2 || (alike && blocks >= MANY * threads))))
        return 0;
    if (forced == 0)
        blocks = fv_min(blocks, 2 * threads);
    if (!fv_multiply(blocks, plan->visible_segments, &floats) ||
        !fv_multiply(floats, segment_floats(plan, most_rows(plan)), &floats))
        return forced > 0 ? -1 : most_floats;
    return forced > 0 ? floats : fv_min(floats, most_floats);
}

/* Floats of the partial results of all segments of a block. */
static int64_t block_floats(const fovea_attention_plan *plan, const fv_scheduled_sequence *sequence) {
    return visible_of(plan, sequence->segments) * segment_floats(plan, sequence->head.rows);
}

/* How many blocks of a sequence are split, if they are so few that threads would wait for the last: all of them if 2
 * threads * block work exceeds the work of the sequence, else the last count % threads. */
static int64_t split_of(const fv_schedule *schedule, const fv_scheduled_sequence *sequence) {
    const int64_t threads = schedule->plan->ctx->threads.count;
    const double behind = sequence[1].work; /* keeps threads busy that have no more blocks of this sequence */
    if (behind >= (double)threads * sequence->block_work || sequence->count >= MANY * threads)
        return 0;
    return 2.0 * (double)threads * sequence->block_work > sequence->work ? sequence->count : sequence->count % threads;
}

/* Decides which blocks of a sequence are split and into how many chunks. Returns the floats of their partial
 * results, at most most. */
static int64_t split_sequence(const fv_schedule *schedule, fv_scheduled_sequence *sequence, int64_t most) {
    const fovea_attention_plan *plan = schedule->plan;
    const int64_t segments = visible_of(plan, sequence->segments), floats = block_floats(plan, sequence);
    const int64_t forced = plan->choice.split_segments;
    int64_t split = 0;
    sequence->chunks = 1;
    if (sequence->count > 0 && forced > 0) {
        split = sequence->count;
        sequence->chunks = fv_ceil_div(segments, forced);
    } else if (sequence->count > 0 && most >= floats && segments > 1 && sequence->head.rows <= most_rows(plan)) {
        split = fv_min(split_of(schedule, sequence), most / floats);
        /* The work that is left when the first of them is taken, in shares. */
        const double left = (double)split * sequence->block_work + sequence[1].work;
        const double chunks = left > 0.0 ? ceil(sequence->block_work * SHARES * plan->ctx->threads.count / left) : 1.0;
        sequence->chunks = chunks < (double)segments ? (int64_t)chunks : segments;
    }
    sequence->whole = sequence->chunks > 1 || forced > 0 ? sequence->count - split : sequence->count;
    return (sequence->count - sequence->whole) * floats;
}

fv_partial fv_schedule_partial(const fv_schedule *schedule, const fv_work_item *item, char *partials, int64_t segment) {
    const fovea_attention_plan *plan = schedule->plan;
    assert(item->split && segment >= 0 && segment < plan->visible_segments);
    float *o = (float *)(void *)partials + item->partials + segment * segment_floats(plan, item->rows);
    float *m = o + item->rows * plan->o_stride;
    return (fv_partial){.o = o, .m = m, .l = m + item->rows};
}

/* ----------------------------------------------------------------------------------------------------- sequences -- */

static int64_t tokens_of(const fv_sequence *s) { return s->tokens.end - s->tokens.begin; }

/* Work of a block: rows times keys, plus the fixed cost of each row. */
static double work_of(const fovea_attention_plan *plan, const fv_head_blocks *head, int64_t kv_len) {
    enum { ROW = 32 };
    const int64_t visible = fv_min(kv_len, plan->visible_segments * FV_SEGMENT);
    return (double)fv_max(head->rows, FULL_ROWS) * (double)(visible + ROW);
}

/* Sets the sizes of `sequences` sequences of `tokens` tokens and kv_len keys each. */
static void fill_sequence(const fovea_attention_plan *plan, fv_scheduled_sequence *sequence, int64_t sequences,
                          int64_t tokens, int64_t kv_len) {
    sequence->segments = fv_max(fv_ceil_div(kv_len, FV_SEGMENT), 1);
    sequence->count = 0;
    sequence->block_work = 0.0;
    sequence->head = (fv_head_blocks){1, 1, 1, 1};
    if (tokens == 0)
        return;
    sequence->head = blocks_of_head(plan, tokens);
    sequence->count = sequences * plan->desc.kv_heads * sequence->head.count;
    sequence->block_work = work_of(plan, &sequence->head, kv_len);
}

/* All sequences, in the order of the powers of two of their blocks' work, the most first. */
static void fill_sequences(const fv_schedule *schedule) {
    enum { LEVELS = 128 };
    int64_t begin[LEVELS + 1] = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t b = 0; b < schedule->count; b++) {
            const fv_sequence s = fv_attention_sequence(&schedule->plan->desc, schedule->args, b);
            fv_scheduled_sequence sequence = {.first = b};
            fill_sequence(schedule->plan, &sequence, 1, tokens_of(&s), s.kv_len);
            const int level = LEVELS - 1 - (int)fv_min(ilogb(sequence.block_work + 1.0), LEVELS - 1);
            if (pass == 0)
                begin[level + 1]++;
            else
                schedule->sequences[begin[level]++] = sequence;
        }
        for (int level = 0; pass == 0 && level < LEVELS; level++)
            begin[level + 1] += begin[level];
    }
}

/* Where a block is, or an item. */
static const fv_scheduled_sequence *sequence_of(const fv_schedule *schedule, bool items, int64_t number) {
    int64_t low = 0, high = schedule->count; /* the last sequence from which on there are no more before it */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        const fv_scheduled_sequence *sequence = &schedule->sequences[middle];
        if ((items ? sequence->items : sequence->blocks) <= number)
            low = middle;
        else
            high = middle;
    }
    return &schedule->sequences[low];
}

/* -------------------------------------------------------------------------------------------------- the schedule -- */

int64_t fv_schedule_bytes(const fovea_attention_plan *plan) {
    int64_t at = 0;
    fv_reserve(&at, plan->desc.batch + 1, (int64_t)sizeof(fv_scheduled_sequence));
    return at;
}

fv_schedule fv_schedule_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv,
                             void *table) {
    const fovea_attention_desc *d = &plan->desc;
    const bool alike = !d->packed && (plan->tasks == 1 || !args->kv_lens);
    fv_schedule schedule = {.plan = plan, .args = args, .kv = kv, .sequences = table, .count = alike ? 1 : d->batch};
    if (plan->row_blocks == 0)
        return schedule;
    fv_scheduled_sequence *const sequences = schedule.sequences, *const end = sequences + schedule.count;
    if (alike) {
        *sequences = (fv_scheduled_sequence){.first = 0};
        fill_sequence(plan, sequences, d->batch, d->q_len, d->kv_len);
    } else
        fill_sequences(&schedule);
    *end = (fv_scheduled_sequence){.count = 0};
    for (fv_scheduled_sequence *p = end - 1; p >= sequences; p--)
        p->work = p[1].work + (double)p->count * p->block_work;
    int64_t floats = 0;
    for (fv_scheduled_sequence *p = sequences; p < end; p++) {
        p->blocks = schedule.blocks;
        schedule.blocks += p->count;
        p->partials = floats;
        floats += split_sequence(&schedule, p, plan->partial_floats - floats);
        schedule.split += p->count - p->whole;
    }
    end->blocks = schedule.blocks;
    assert(schedule.blocks <= plan->row_blocks && floats <= plan->partial_floats);
    return schedule;
}

fv_row_block fv_schedule_block(const fv_schedule *schedule, int64_t block) {
    assert(block >= 0 && block < schedule->blocks);
    const fv_scheduled_sequence *sequence = sequence_of(schedule, false, block);
    return block_of(sequence, schedule->plan->desc.kv_heads, block - sequence->blocks);
}

/* How the blocks of a sequence are cut in a pass: the first ones go whole, groups of the others are chunks each. */
typedef struct cut {
    int64_t whole, blocks, chunks; /* first ones; of a group; items of a group */
    int64_t items;
} cut;

static cut cut_of(const fv_schedule *schedule, fv_pass pass, const fv_scheduled_sequence *sequence) {
    const int64_t split = sequence->count - sequence->whole;
    cut c = {.blocks = 1, .chunks = 1};
    switch (pass) {
    case FV_PASS_WORK: c.whole = sequence->whole, c.chunks = sequence->chunks; break;
    case FV_PASS_MERGE: /* of few blocks, parts of the rows */
        c.chunks = fv_max(fv_min(2 * schedule->plan->tasks / fv_max(schedule->split, 1), sequence->head.rows), 1);
        break;
    case FV_PASS_SPLIT: break;
    case FV_PASS_CHUNKS: c.chunks = sequence->chunks; break;
    case FV_PASS_KEYS: c.blocks = sequence->head.parts, c.chunks = sequence->segments; break;
    }
    const int64_t rest = pass == FV_PASS_KEYS ? sequence->count : split;
    c.items = c.whole + rest / c.blocks * c.chunks;
    return c;
}

int64_t fv_schedule_pass(fv_schedule *schedule, fv_pass pass) {
    int64_t items = 0;
    if (schedule->blocks == 0)
        return 0;
    for (fv_scheduled_sequence *p = schedule->sequences; p < schedule->sequences + schedule->count; p++) {
        p->items = items;
        items += cut_of(schedule, pass, p).items;
    }
    schedule->sequences[schedule->count].items = items;
    return items;
}

fv_work_item fv_schedule_item(const fv_schedule *schedule, fv_pass pass, int64_t item) {
    const fv_scheduled_sequence *sequence = sequence_of(schedule, true, item);
    const cut c = cut_of(schedule, pass, sequence);
    const int64_t number = item - sequence->items;
    if (number < c.whole)
        return (fv_work_item){.block = sequence->blocks + number, .blocks = 1, .chunks = 1};
    const int64_t group = (number - c.whole) / c.chunks, keys = pass == FV_PASS_KEYS;
    return (fv_work_item){.block = sequence->blocks + (keys ? 0 : sequence->whole) + group * c.blocks,
                          .blocks = c.blocks,
                          .chunk = (number - c.whole) % c.chunks,
                          .chunks = c.chunks,
                          .split = !keys,
                          .partials = sequence->partials + group * block_floats(schedule->plan, sequence),
                          .rows = sequence->head.rows};
}

int fv_schedule_node(const fv_schedule *schedule, const fv_work_item *item) {
    const int64_t head = fv_schedule_block(schedule, item->block).kv_head;
    return fv_node_of(schedule->kv->nodes, head, schedule->plan->desc.kv_heads);
}

/* How many items from first on are a quarter of a thread's share of the work that is left. None of them has much more
 * work than the first. */
static int64_t share(const fv_schedule *schedule, int64_t count, int64_t first) {
    const fv_scheduled_sequence *sequence = sequence_of(schedule, true, first);
    const double items = (double)(sequence[1].items - sequence->items),
                 item = (sequence->work - sequence[1].work) / items;
    const double left = sequence->work - (double)(first - sequence->items) * item;
    const double most = left / ((double)schedule->plan->tasks * SHARES) / item;
    return most < (double)(count - first) ? fv_max((int64_t)most, 1) : count - first;
}

int64_t fv_schedule_claim(const fv_schedule *schedule, int64_t count, _Atomic int64_t *next, int64_t *end) {
    const int64_t tasks = schedule->plan->tasks;
    if (schedule->count == 1 || tasks == 1)
        return fv_claim(next, count, tasks, end);
    int64_t first = atomic_load(next);
    do
        *end = first < count ? first + share(schedule, count, first) : first;
    while (*end > first && !atomic_compare_exchange_weak(next, &first, *end));
    return first;
}
