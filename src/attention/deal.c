/* Work of a call (deal.h). */
#include "attention/deal.h"

#include "threads/threads.h"

#include <assert.h>
#include <math.h>

enum {
    SHARES = 4,    /* of a thread: none waits long for another */
    FULL_ROWS = 8, /* fewer take as long: keys come no faster from memory */
    MANY = 16      /* items of a thread: the last of them is no great part */
};

/* Memory for partial results at most, in floats: what lacks it is not split. */
static const int64_t most_floats = (int64_t)16 << 20;

/* ------------------------------------------------------------------------------------------------ blocks of rows -- */

static fv_deal_blocks blocks_of(const fovea_attention_plan *plan, int64_t tokens) {
    const int64_t partition = fv_attention_partition(plan, tokens);
    const int64_t rows = fv_ceil_div(partition, fv_ceil_div(partition, plan->choice.block_rows));
    const int64_t parts = fv_ceil_div(partition, rows);
    return (fv_deal_blocks){partition, rows, parts, plan->group * tokens / partition * parts};
}

static fv_item item_of(const fv_deal_place *place, int64_t kv_heads, int64_t item) {
    const fv_deal_blocks *b = &place->blocks;
    const int64_t head = item / b->count, block = item % b->count, done = block % b->parts * b->rows;
    return (fv_item){.batch = place->sequence + head / kv_heads,
                     .kv_head = head % kv_heads,
                     .first_row = block / b->parts * b->partition + done,
                     .rows = fv_min(b->rows, b->partition - done)};
}

/* ------------------------------------------------------------------------------------------------- split items -- */

/* Floats of the partial results of an item's segment. */
static int64_t segment_floats(const fovea_attention_plan *plan, int64_t rows) { return rows * (plan->o_stride + 2); }

/* Of the segments of a sequence, those that an item sees at most. */
static int64_t seen_of(const fovea_attention_plan *plan, int64_t segments) {
    return fv_min(segments, plan->seen_segments);
}

/* Where blocks are split as lengths ask for it, only those of one tile are. */
static int64_t most_rows(const fovea_attention_plan *plan) {
    return plan->choice.split_segments > 0 ? plan->choice.block_rows
                                           : fv_min(plan->choice.block_rows, plan->choice.tile_rows);
}

int64_t fv_deal_partial_floats(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t forced = plan->choice.split_segments, threads = plan->ctx->threads.count;
    const bool alike = !d->packed && d->batch == 1;
    int64_t items = plan->items, floats;
    if (forced < 0 || (forced == 0 && (threads == 1 || plan->seen_segments < 2 || (alike && items >= MANY * threads))))
        return 0;
    if (forced == 0)
        items = fv_min(items, 2 * threads);
    if (!fv_multiply(items, plan->seen_segments, &floats) ||
        !fv_multiply(floats, segment_floats(plan, most_rows(plan)), &floats))
        return forced > 0 ? -1 : most_floats;
    return forced > 0 ? floats : fv_min(floats, most_floats);
}

/* Of all segments of an item of a place. */
static int64_t item_floats(const fovea_attention_plan *plan, const fv_deal_place *place) {
    return seen_of(plan, place->segments) * segment_floats(plan, place->blocks.rows);
}

/* How many items of a place are split, if they are so few that threads would wait for the last: all of them if 2
 * threads * item work exceeds the work of the place, else the last count % threads. */
static int64_t split_of(const fv_deal *deal, const fv_deal_place *place) {
    const int64_t threads = deal->plan->ctx->threads.count;
    const double behind = place[1].work; /* keeps threads busy that have no more items of this place */
    if (behind >= (double)threads * place->item_work || place->count >= MANY * threads)
        return 0;
    return 2.0 * (double)threads * place->item_work > place->work ? place->count : place->count % threads;
}

/* Decides which items of a place are split and into how many chunks. Returns the floats of their partial results, at
 * most most. */
static int64_t split_place(const fv_deal *deal, fv_deal_place *place, int64_t most) {
    const fovea_attention_plan *plan = deal->plan;
    const int64_t segments = seen_of(plan, place->segments), floats = item_floats(plan, place);
    const int64_t forced = plan->choice.split_segments;
    int64_t split = 0;
    place->chunks = 1;
    if (place->count > 0 && forced > 0) {
        split = place->count;
        place->chunks = fv_ceil_div(segments, forced);
    } else if (place->count > 0 && most >= floats && segments > 1 && place->blocks.rows <= most_rows(plan)) {
        split = fv_min(split_of(deal, place), most / floats);
        /* The work that is left when the first of them is taken, in shares. */
        const double left = (double)split * place->item_work + place[1].work;
        const double chunks = left > 0.0 ? ceil(place->item_work * SHARES * plan->ctx->threads.count / left) : 1.0;
        place->chunks = chunks < (double)segments ? (int64_t)chunks : segments;
    }
    place->whole = place->chunks > 1 || forced > 0 ? place->count - split : place->count;
    return (place->count - place->whole) * floats;
}

fv_partial fv_deal_partial(const fv_deal *deal, const fv_unit *unit, char *partials, int64_t segment) {
    const fovea_attention_plan *plan = deal->plan;
    assert(unit->split && segment >= 0 && segment < plan->seen_segments);
    float *o = (float *)(void *)partials + unit->partials + segment * segment_floats(plan, unit->rows);
    float *m = o + unit->rows * plan->o_stride;
    return (fv_partial){.o = o, .m = m, .l = m + unit->rows};
}

/* ------------------------------------------------------------------------------------------------------- places -- */

static int64_t tokens_of(const fv_sequence *s) { return s->tokens.end - s->tokens.begin; }

/* Of an item: rows times keys, and what a row costs without any. */
static double work_of(const fovea_attention_plan *plan, const fv_deal_blocks *blocks, int64_t kv_len) {
    enum { ROW = 32 };
    const int64_t seen = fv_min(kv_len, plan->seen_segments * FV_SEGMENT);
    return (double)fv_max(blocks->rows, FULL_ROWS) * (double)(seen + ROW);
}

/* Sizes of a place of so many sequences of so many tokens and keys each. */
static void fill_place(const fovea_attention_plan *plan, fv_deal_place *place, int64_t sequences, int64_t tokens,
                       int64_t kv_len) {
    place->segments = fv_max(fv_ceil_div(kv_len, FV_SEGMENT), 1);
    place->count = 0;
    place->item_work = 0.0;
    place->blocks = (fv_deal_blocks){1, 1, 1, 1};
    if (tokens == 0)
        return;
    place->blocks = blocks_of(plan, tokens);
    place->count = sequences * plan->desc.kv_heads * place->blocks.count;
    place->item_work = work_of(plan, &place->blocks, kv_len);
}

/* A place for each sequence, in the order of the powers of two of their items' work, the most first. */
static void fill_places(const fv_deal *deal) {
    enum { LEVELS = 128 };
    int64_t begin[LEVELS + 1] = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t b = 0; b < deal->count; b++) {
            const fv_sequence s = fv_attention_sequence(deal->plan, deal->args, b);
            fv_deal_place place = {.sequence = b};
            fill_place(deal->plan, &place, 1, tokens_of(&s), s.kv_len);
            const int level = LEVELS - 1 - (int)fv_min(ilogb(place.item_work + 1.0), LEVELS - 1);
            if (pass == 0)
                begin[level + 1]++;
            else
                deal->places[begin[level]++] = place;
        }
        for (int level = 0; pass == 0 && level < LEVELS; level++)
            begin[level + 1] += begin[level];
    }
}

/* The place of an item, or of a unit. */
static const fv_deal_place *place_of(const fv_deal *deal, bool units, int64_t number) {
    int64_t low = 0, high = deal->count; /* the last place from which on there are no more before it */
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
    fv_reserve(&at, plan->desc.batch + 1, (int64_t)sizeof(fv_deal_place));
    return at;
}

fv_deal fv_deal_make(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv, void *table) {
    const fovea_attention_desc *d = &plan->desc;
    const bool alike = !d->packed && (plan->tasks == 1 || !args->kv_lens);
    fv_deal deal = {.plan = plan, .args = args, .kv = kv, .places = table, .count = alike ? 1 : d->batch};
    if (plan->items == 0)
        return deal;
    fv_deal_place *const places = deal.places, *const end = places + deal.count;
    if (alike) {
        *places = (fv_deal_place){.sequence = 0};
        fill_place(plan, places, d->batch, d->q_len, d->kv_len);
    } else
        fill_places(&deal);
    *end = (fv_deal_place){.count = 0};
    for (fv_deal_place *p = end - 1; p >= places; p--)
        p->work = p[1].work + (double)p->count * p->item_work;
    int64_t floats = 0;
    for (fv_deal_place *p = places; p < end; p++) {
        p->items = deal.items;
        deal.items += p->count;
        p->partials = floats;
        floats += split_place(&deal, p, plan->partial_floats - floats);
        deal.split += p->count - p->whole;
    }
    end->items = deal.items;
    assert(deal.items <= plan->items && floats <= plan->partial_floats);
    return deal;
}

fv_item fv_deal_item(const fv_deal *deal, int64_t item) {
    assert(item >= 0 && item < deal->items);
    const fv_deal_place *place = place_of(deal, false, item);
    return item_of(place, deal->plan->desc.kv_heads, item - place->items);
}

/* How the items of a place are cut in a pass: the first ones go whole, groups of the others are chunks each. */
typedef struct cut {
    int64_t whole, items, chunks; /* first ones; of a group; units of a group */
    int64_t units;
} cut;

static cut cut_of(const fv_deal *deal, fv_pass pass, const fv_deal_place *place) {
    const int64_t split = place->count - place->whole;
    cut c = {.items = 1, .chunks = 1};
    switch (pass) {
    case FV_PASS_WORK: c.whole = place->whole, c.chunks = place->chunks; break;
    case FV_PASS_MERGE: /* of few items, parts of the rows */
        c.chunks = fv_max(fv_min(2 * deal->plan->tasks / fv_max(deal->split, 1), place->blocks.rows), 1);
        break;
    case FV_PASS_SPLIT: break;
    case FV_PASS_CHUNKS: c.chunks = place->chunks; break;
    case FV_PASS_KEYS: c.items = place->blocks.parts, c.chunks = place->segments; break;
    }
    const int64_t rest = pass == FV_PASS_KEYS ? place->count : split;
    c.units = c.whole + rest / c.items * c.chunks;
    return c;
}

int64_t fv_deal_pass(fv_deal *deal, fv_pass pass) {
    int64_t units = 0;
    if (deal->items == 0)
        return 0;
    for (fv_deal_place *p = deal->places; p < deal->places + deal->count; p++) {
        p->units = units;
        units += cut_of(deal, pass, p).units;
    }
    deal->places[deal->count].units = units;
    return units;
}

fv_unit fv_deal_unit(const fv_deal *deal, fv_pass pass, int64_t unit) {
    const fv_deal_place *place = place_of(deal, true, unit);
    const cut c = cut_of(deal, pass, place);
    const int64_t number = unit - place->units;
    if (number < c.whole)
        return (fv_unit){.item = place->items + number, .items = 1, .chunks = 1};
    const int64_t group = (number - c.whole) / c.chunks, keys = pass == FV_PASS_KEYS;
    return (fv_unit){.item = place->items + (keys ? 0 : place->whole) + group * c.items,
                     .items = c.items,
                     .chunk = (number - c.whole) % c.chunks,
                     .chunks = c.chunks,
                     .split = !keys,
                     .partials = place->partials + group * item_floats(deal->plan, place),
                     .rows = place->blocks.rows};
}

/* How many units from first on are a quarter of a thread's share of the work that is left. None of them has much more
 * work than the first. */
static int64_t share(const fv_deal *deal, int64_t count, int64_t first) {
    const fv_deal_place *place = place_of(deal, true, first);
    const double units = (double)(place[1].units - place->units), unit = (place->work - place[1].work) / units;
    const double left = place->work - (double)(first - place->units) * unit;
    const double most = left / ((double)deal->plan->tasks * SHARES) / unit;
    return most < (double)(count - first) ? fv_max((int64_t)most, 1) : count - first;
}

int64_t fv_deal_claim(const fv_deal *deal, int64_t count, _Atomic int64_t *next, int64_t *end) {
    const int64_t tasks = deal->plan->tasks;
    if (deal->count == 1 || tasks == 1)
        return fv_claim(next, count, tasks, end);
    int64_t first = atomic_load(next);
    do
        *end = first < count ? first + share(deal, count, first) : first;
    while (*end > first && !atomic_compare_exchange_weak(next, &first, *end));
    return first;
}
