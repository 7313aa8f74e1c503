/* The choices of a plan: which kernels, blocks, tiles and splits suit a shape, by a model of caches and threads.
 * Figures: docs/lab/attention.md. None of them changes a bit of any result.
 */
#include "attention/plan/knobs.h"
#include "attention/plan/plan.h"
#include "attention/visible/visible.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <assert.h>

enum {
    CALL_KEYS = 64,      /* of a panel that one call multiplies */
    WHOLE_ROWS = 24,     /* of register tiles of 6, 8 or 12 */
    ONE_TILE_ROWS = 72,  /* likewise: up to these, one tile gains more by overlap with memory than it loses in L1 */
    MANY_ROWS = 144,     /* likewise */
    HEAD_ROWS = 192,     /* from which on a head's blocks are not shared */
    LONG_KEYS = 1024,    /* from which on rows of a tile see about the same ones */
    STREAM_FLOATS = 2048 /* of a panel whose keys come from memory */
};

/* The least panel of a kernel of nr columns: a whole number of its tiles, and of FV_LANES. */
static int64_t panel_of(const fv_kernel *score) {
    int64_t panel = score->nr;
    while (panel % FV_LANES != 0)
        panel += score->nr;
    return panel;
}

/* Caches by which the choice wants sizes reckoned. */
int64_t fv_attention_l1(const fovea_attention_plan *plan) {
    return fv_cpu_scaled(plan->ctx->cpu.l1d, plan->choice.cache_scale);
}

int64_t fv_attention_l2(const fovea_attention_plan *plan) {
    return fv_cpu_scaled(plan->ctx->cpu.l2, plan->choice.cache_scale);
}

/* Rows whose scores of a segment fill the first-level cache. A block of no more is one tile, which packs a panel of
 * keys when it needs it. */
static int64_t fitting_rows(const fovea_attention_plan *plan) {
    return fv_attention_l1(plan) / (FV_SEGMENT * (int64_t)sizeof(float));
}

/* Keys that take a third of the first-level cache when they are packed. */
static int64_t keys_fitting_l1(const fovea_attention_plan *plan) {
    return fv_attention_l1(plan) / (int64_t)sizeof(float) / 3 / plan->desc.head_dim;
}

/* Picks the kernel of scores. With few rows, each key panel is packed into one reused buffer just before its product.
 * The buffer gets at most a third of L1: a larger one is evicted by the keys streaming past it. With the fewest rows,
 * keys come from memory, which idles less if panels are small. Figures: docs/lab/attention.md.
 */
static const fv_kernel *default_score(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const fv_target target = plan->ctx->target;
    const fv_kernel *score = fv_multiply_for(target, plan->rows, fv_max(fv_min(d->kv_len, FV_SEGMENT), 1));
    const bool few = plan->rows <= FV_ATTENTION_FEW_ROWS;
    if (few && d->page_keys > 0) /* groups in place, which all rows should read once */
        return fv_multiply_for_tile(target, plan->rows, FV_KEY_GROUP);
    const int64_t near = keys_fitting_l1(plan), keys = few ? fv_min(near, STREAM_FLOATS / d->head_dim) : near;
    if (plan->rows > fitting_rows(plan) || panel_of(score) <= keys)
        return score;
    const int64_t least = fv_max(2 * fv_isa_lanes(score->isa), FV_LANES);
    return fv_multiply_for_tile(target, plan->rows, fv_max(fv_round_down(keys, FV_LANES), least));
}

/* Keys of a packed panel: about CALL_KEYS, so that a call is not too short, as far as they fit into L1. A
 * block of one tile packs a panel just before its product, the smaller the better. */
static int64_t panel_keys(const fovea_attention_plan *plan) {
    const int64_t least = panel_of(plan->choice.score);
    return plan->rows <= fitting_rows(plan) ? least
                                            : least * fv_max(fv_min(keys_fitting_l1(plan), CALL_KEYS) / least, 1);
}

/* The kernel of values, which stream through it where the rows are few. */
static const fv_kernel *default_value(const fovea_attention_plan *plan) {
    const int64_t columns = fv_min(plan->desc.value_dim, 4096);
    return plan->rows <= FV_ATTENTION_FEW_ROWS ? fv_multiply_for_stream(plan->ctx->target, plan->rows, columns)
                                               : fv_multiply_for(plan->ctx->target, plan->rows, columns);
}

/* Sequences that are sure to be as long as the longest. */
static int64_t long_sequences(const fovea_attention_desc *d) { return d->packed ? 1 : d->batch; }

/* Rows of a block at most, so that each thread has four and none waits long for the last. */
static int64_t rows_for_threads(const fovea_attention_plan *plan) {
    int64_t all;
    if (plan->ctx->threads.count == 1 ||
        !fv_multiply(plan->rows, long_sequences(&plan->desc) * plan->desc.kv_heads, &all))
        return INT64_MAX;
    return all / plan->ctx->threads.count / 4;
}

/* The most keys that a row sees. */
static int64_t most_visible(const fovea_attention_desc *d) {
    if (d->window_left < 0 || fv_attention_right(d) < 0)
        return d->kv_len;
    const int64_t right = fv_attention_right(d);
    return d->window_left < d->kv_len - right ? d->window_left + right : d->kv_len;
}

/* Rows of a tile. Each tile reads all packed panels and values of a segment, so it has many rows: their scores take a
 * sixth of L2. Where rows see different keys, few rows compute fewer scores that nobody sees: so tiles stay small where
 * a row sees few keys, and where one tile would take the place of several. A whole key head of few rows is one tile. */
static int64_t default_tile_rows(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t fitting = fitting_rows(plan), half = fitting / 2;
    const bool limited = fv_attention_limited(d);
    if (plan->rows <= fitting || (plan->rows <= ONE_TILE_ROWS && !limited && fv_sources_of_floats(&plan->sources)))
        return plan->rows;
    const int64_t fewer =
        fv_max(half, limited && plan->choice.score->nr >= CALL_KEYS ? 2 * plan->choice.value->mr : WHOLE_ROWS);
    if (limited && most_visible(d) < LONG_KEYS)
        return fewer;
    const int64_t many = fv_attention_l2(plan) / 6 / (FV_SEGMENT * (int64_t)sizeof(float));
    const int64_t whole = fv_max(fv_round_down(fv_min(many, MANY_ROWS), WHOLE_ROWS), WHOLE_ROWS);
    const bool several = fv_min(plan->rows, rows_for_threads(plan)) > whole;
    return several || d->kv_len <= FV_SEGMENT ? whole : fewer;
}

/* Rows of a block: queries and outputs of the block, a segment of keys and one of values take three quarters of the
 * second-level cache; but no more rows than give each thread four blocks. */
static int64_t default_block_rows(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t channels = d->head_dim + plan->o_stride,
                  floats = fv_attention_l2(plan) / (int64_t)sizeof(float) / 4 * 3;
    const int64_t fitting = (floats - FV_SEGMENT * channels) / channels;
    const int64_t rows = fv_min(fv_max(fitting, 64), 1024);
    const int64_t tile = plan->choice.tile_rows, least = tile > 2 * fitting_rows(plan) ? WHOLE_ROWS : tile;
    return fv_min(rows, fv_max(rows_for_threads(plan), least));
}

/* Rows of which blocks are equal parts: those of a key head. Where causality or a window limits keys, those of each
 * query head, as the end of one head sees all keys and the beginning of the next few. */
int64_t fv_attention_partition(const fovea_attention_plan *plan, int64_t tokens) {
    const bool heads = plan->group > 1 && fv_attention_limited(&plan->desc) && tokens >= HEAD_ROWS;
    return heads ? tokens : plan->group * tokens;
}

/* The most segments that a window lets the queries of a sequence see, wherever they stand. */
static int64_t window_segments(const fovea_attention_desc *d) {
    const int64_t right = fv_attention_right(d);
    const int64_t keys = d->window_left + right + d->q_len;
    return (keys + FV_SEGMENT - 2) / FV_SEGMENT + 1;
}

/* Bytes of queries, keys, values and outputs. */
static int64_t block_bytes(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    int64_t bytes;
    return fv_multiply(d->head_dim + d->value_dim, (int64_t)sizeof(float), &bytes) &&
                   fv_multiply(bytes, plan->choice.block_rows + d->kv_len, &bytes)
               ? bytes
               : INT64_MAX;
}

/* The products of a block of so few rows cannot prefetch all of the next block; half a segment ahead (prefetch.h) they
 * can. By the default's kernel: values that are used in place are not multiplied by the chosen one. */
static bool few_rows_of_many_keys(const fovea_attention_plan *plan) {
    enum { MANY = 8 }; /* times as many */
    return plan->rows <= default_value(plan)->mr && plan->desc.kv_len >= MANY * plan->rows;
}

/* Rows of a block from which on, or up to which, one source is better than another. */
static void default_thresholds(fv_attention_choice *c) {
    if (c->few_rows == 0)
        c->few_rows = FV_ATTENTION_FEW_ROWS;
    if (c->copy_rows == 0)
        c->copy_rows = 192; /* below, the copy takes as long as it saves */
    if (c->amx_rows == 0)
        c->amx_rows = 8; /* fewer leave most of a tile empty, and multiply-adds are as fast */
}

void fv_attention_heuristics(fovea_attention_plan *plan, const fv_attention_choice *requested) {
    const fovea_attention_desc *d = &plan->desc;
    fv_attention_choice *c = &plan->choice;
    assert(!requested || ((!requested->score || fv_multiply_tuned(requested->score, plan->ctx->target)) &&
                          (!requested->value || fv_multiply_tuned(requested->value, plan->ctx->target))));
    *c = requested ? *requested : (fv_attention_choice){0};
    if (c->cache_scale <= 0)
        c->cache_scale = 100;
    if (!c->score)
        c->score = default_score(plan);
    if (!c->value)
        c->value = default_value(plan);
    plan->panel = plan->sources.panel = panel_keys(plan);
    plan->tiles = fv_sources_tiles(&plan->sources);
    plan->o_stride = fv_round_up(d->value_dim, FV_LANES);
    plan->s_stride =
        fv_round_up(FV_SEGMENT, plan->panel) + FV_LANES; /* not a power of two: rows in different cache sets */
    if (c->tile_rows <= 0)
        c->tile_rows = plan->tiles ? fv_round_up(default_tile_rows(plan), plan->tiles->mr) : default_tile_rows(plan);
    c->tile_rows = fv_min(c->tile_rows, plan->rows);
    if (c->block_rows <= 0)
        c->block_rows = default_block_rows(plan);
    plan->partition_rows = fv_attention_partition(plan, d->q_len);
    /* Blocks of equal length, so that threads end together. */
    c->block_rows = fv_ceil_div(plan->partition_rows, fv_ceil_div(plan->partition_rows, c->block_rows));
    plan->blocks = plan->rows / plan->partition_rows * fv_ceil_div(plan->partition_rows, c->block_rows);
    c->tile_rows = fv_min(c->tile_rows, c->block_rows);
    default_thresholds(c);
    c->threads = c->threads > 0 ? fv_min(c->threads, plan->ctx->threads.count) : plan->ctx->threads.count;
    fv_sources_select(&plan->sources);
    c->k = 1 + (int64_t)fv_sources_keys(&plan->sources)->id;
    c->v = 1 + (int64_t)fv_sources_values(&plan->sources)->id;
    plan->edge_rows = fv_sources_edge_rows(&plan->sources);
    plan->row_blocks = d->batch * d->kv_heads * plan->blocks;
    plan->segments = fv_ceil_div(d->kv_len, FV_SEGMENT);
    plan->visible_segments = fv_min(plan->segments, window_segments(d));
    plan->fetches_next = block_bytes(plan) <= fv_attention_l2(plan) / 4 && !few_rows_of_many_keys(plan);
    if (plan->segments < 1)
        c->split_segments = -1;
}
