/* Work of a call (deal.h). */
#include "attention/deal.h"

#include "threads/threads.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------------ blocks of rows -- */

/* The blocks of a key head of a sequence: equal parts of its rows, or of those of each query head. */
typedef struct blocks {
    int64_t partition, rows, parts, count;
} blocks;

static blocks blocks_of(const fovea_attention_plan *plan, int64_t tokens) {
    const int64_t partition = fv_attention_partition(plan, tokens);
    const int64_t rows = fv_ceil_div(partition, fv_ceil_div(partition, plan->choice.block_rows));
    const int64_t parts = fv_ceil_div(partition, rows);
    return (blocks){partition, rows, parts, plan->group * tokens / partition * parts};
}

static fv_item item_of(const blocks *b, int64_t sequence, int64_t item) {
    const int64_t block = item % b->count, done = block % b->parts * b->rows;
    return (fv_item){.batch = sequence,
                     .kv_head = item / b->count,
                     .first_row = block / b->parts * b->partition + done,
                     .rows = fv_min(b->rows, b->partition - done)};
}

/* --------------------------------------------------------------------------------------------- packed sequences -- */

static int64_t tokens_of(const fv_sequence *s) { return s->tokens.end - s->tokens.begin; }

static int64_t items_of(const fovea_attention_plan *plan, const fv_sequence *s) {
    return tokens_of(s) > 0 ? plan->desc.kv_heads * blocks_of(plan, tokens_of(s)).count : 0;
}

/* Of an item: rows times keys, and what a row costs without any. */
static double work_of(const fovea_attention_plan *plan, const fv_sequence *s) {
    enum { ROW = 32 };
    return tokens_of(s) > 0 ? (double)blocks_of(plan, tokens_of(s)).rows * (double)(s->kv_len + ROW) : 0.0;
}

/* Runs of the segments of an item of a sequence. */
static int64_t chunks_of(const fovea_attention_plan *plan, int64_t kv_len) {
    const int64_t segments = fv_min(fv_ceil_div(kv_len, FV_SEGMENT), plan->seen_segments);
    return fv_max(fv_ceil_div(segments, plan->choice.split_segments), 1);
}

/* Sequences in the order of the powers of two of their items' work, the most first. */
static void order(const fv_deal *deal) {
    enum { LEVELS = 128 };
    const int64_t batch = deal->plan->desc.batch;
    int64_t begin[LEVELS + 1] = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t b = 0; b < batch; b++) {
            const fv_sequence s = fv_attention_sequence(deal->plan, deal->args, b);
            const int level = LEVELS - 1 - (int)fv_min(ilogb(work_of(deal->plan, &s) + 1.0), LEVELS - 1);
            if (pass == 0)
                begin[level + 1]++;
            else
                deal->places[begin[level]++].sequence = b;
        }
        for (int level = 0; pass == 0 && level < LEVELS; level++)
            begin[level + 1] += begin[level];
    }
}

/* The chunks of an item's keys. */
static int64_t pass_chunks(const fovea_attention_plan *plan, fv_pass pass, int64_t kv_len) {
    switch (pass) {
    case FV_PASS_RUNS: return chunks_of(plan, kv_len);
    case FV_PASS_KEYS: return fv_max(fv_ceil_div(kv_len, FV_SEGMENT), 1);
    default: return 1;
    }
}

/* Items that go together, of a sequence of so many tokens. */
static int64_t pass_items(const fovea_attention_plan *plan, fv_pass pass, int64_t tokens) {
    return pass == FV_PASS_KEYS ? blocks_of(plan, tokens).parts : 1;
}

/* The place of an item, or of a unit. */
static const fv_deal_place *place_of(const fv_deal *deal, bool units, int64_t number) {
    int64_t low = 0, high = deal->plan->desc.batch; /* the last place from which on there are no more before it */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        const fv_deal_place *place = &deal->places[middle];
        if ((units ? place->units : place->items) <= number)
            low = middle;
        else
            high = middle;
    }
    return &deal->places[low];
}

/* ------------------------------------------------------------------------------------------------------ the deal -- */

int64_t fv_deal_bytes(const fovea_attention_plan *plan) {
    int64_t at = 0;
    if (plan->desc.packed)
        fv_reserve(&at, plan->desc.batch + 1, (int64_t)sizeof(fv_deal_place));
    return at;
}

fv_deal fv_deal_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv, void *table) {
    fv_deal deal = {.plan = plan, .args = args, .kv = kv, .items = plan->items};
    if (!plan->desc.packed || plan->items == 0)
        return deal;
    deal.places = table;
    order(&deal);
    fv_deal_pass(&deal, FV_PASS_ITEMS);
    deal.items = deal.places[plan->desc.batch].items;
    assert(deal.items <= plan->items);
    return deal;
}

fv_item fv_deal_item(const fv_deal *deal, int64_t item) {
    assert(item >= 0 && item < deal->items);
    const fovea_attention_plan *plan = deal->plan;
    if (!deal->places) {
        const blocks b = {plan->partition_rows, plan->choice.block_rows,
                          fv_ceil_div(plan->partition_rows, plan->choice.block_rows), plan->blocks};
        const int64_t items = plan->desc.kv_heads * plan->blocks;
        return item_of(&b, item / items, item % items);
    }
    const fv_deal_place *place = place_of(deal, false, item);
    const fv_sequence s = fv_attention_sequence(plan, deal->args, place->sequence);
    const blocks b = blocks_of(plan, tokens_of(&s));
    return item_of(&b, place->sequence, item - place->items);
}

int64_t fv_deal_pass(fv_deal *deal, fv_pass pass) {
    const fovea_attention_plan *plan = deal->plan;
    const int64_t batch = plan->desc.batch;
    if (plan->items == 0)
        return 0;
    if (!deal->places)
        return plan->items / pass_items(plan, pass, plan->desc.q_len) * pass_chunks(plan, pass, plan->desc.kv_len);
    int64_t items = 0, units = 0;
    for (int64_t i = 0; i <= batch; i++) {
        fv_deal_place *place = &deal->places[i];
        place->items = items;
        place->units = units;
        place->work = 0.0;
        if (i == batch)
            break;
        const fv_sequence s = fv_attention_sequence(plan, deal->args, place->sequence);
        const int64_t count = items_of(plan, &s);
        items += count;
        if (count > 0)
            units += count / pass_items(plan, pass, tokens_of(&s)) * pass_chunks(plan, pass, s.kv_len);
        place->work = (double)count * work_of(plan, &s);
    }
    for (int64_t i = batch - 1; i >= 0; i--)
        deal->places[i].work += deal->places[i + 1].work;
    return units;
}

fv_unit fv_deal_unit(const fv_deal *deal, fv_pass pass, int64_t unit) {
    const fovea_attention_plan *plan = deal->plan;
    int64_t tokens = plan->desc.q_len, keys = plan->desc.kv_len, before = 0;
    if (pass == FV_PASS_ITEMS)
        return (fv_unit){unit, 1, 0, 1};
    if (deal->places) {
        const fv_deal_place *place = place_of(deal, true, unit);
        const fv_sequence s = fv_attention_sequence(plan, deal->args, place->sequence);
        tokens = tokens_of(&s);
        keys = s.kv_len;
        before = place->items;
        unit -= place->units;
    }
    const int64_t items = pass_items(plan, pass, tokens), chunks = pass_chunks(plan, pass, keys);
    return (fv_unit){before + unit / chunks * items, items, unit % chunks, chunks};
}

/* How many units from first on are a quarter of a thread's share of the work that is left. None of them has much more work
 * than the first. */
static int64_t share(const fv_deal *deal, int64_t count, int64_t first) {
    const fv_deal_place *place = place_of(deal, true, first);
    const double units = (double)(place[1].units - place->units), unit = (place->work - place[1].work) / units;
    const double left = place->work - (double)(first - place->units) * unit;
    const double most = left / ((double)deal->plan->tasks * 4.0) / unit;
    return most < (double)(count - first) ? fv_max((int64_t)most, 1) : count - first;
}

int64_t fv_deal_claim(const fv_deal *deal, int64_t count, _Atomic int64_t *next, int64_t *end) {
    const int64_t tasks = deal->plan->tasks;
    if (!deal->places || tasks == 1)
        return fv_claim(next, count, tasks, end);
    int64_t first = atomic_load(next);
    do
        *end = first < count ? first + share(deal, count, first) : first;
    while (*end > first && !atomic_compare_exchange_weak(next, &first, *end));
    return first;
}
