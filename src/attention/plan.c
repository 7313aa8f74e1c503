/* Plans: which kernels and blocks for one shape, by a model of caches and threads, and how the workspace is laid out.
 */
#include "attention/plan.h"

#include "attention/score.h"

#include "attention/tuning.h"
#include "attention/visible.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALL_KEYS = 64,      /* of a panel that one call of a gemm multiplies */
    WHOLE_ROWS = 24,     /* of register tiles of 6, 8 or 12 */
    MANY_ROWS = 144,     /* likewise */
    LONG_KEYS = 1024,    /* so many that rows of a tile see about the same ones */
    STREAM_FLOATS = 2048 /* of a panel whose keys come from memory */
};

/* The least panel of a gemm of nr columns: a whole number of its tiles, and of the granule of packed keys. */
static int64_t panel_of(const fv_kernel *score) {
    int64_t panel = score->nr;
    while (panel % FV_LANES != 0)
        panel += score->nr;
    return panel;
}

/* Caches by which the choice wants sizes reckoned. */
static int64_t l1_of(const fovea_attention_plan *plan) {
    return fv_cpu_scaled(plan->ctx->cpu.l1d, plan->choice.cache_scale);
}

static int64_t l2_of(const fovea_attention_plan *plan) {
    return fv_cpu_scaled(plan->ctx->cpu.l2, plan->choice.cache_scale);
}

/* Rows whose scores of a segment fill the first-level cache. A block of no more is one tile, which packs a panel of
 * keys when it needs it. */
static int64_t fitting_rows(const fovea_attention_plan *plan) {
    return l1_of(plan) / (FV_SEGMENT * (int64_t)sizeof(float));
}

/* Keys that take a third of the first-level cache when they are packed. */
static int64_t keys_fitting_l1(const fovea_attention_plan *plan) {
    return l1_of(plan) / (int64_t)sizeof(float) / 3 / plan->desc.head_dim;
}

/* The gemm of scores. Keys that are packed when they are needed are written to one panel again and again: it takes a
 * third of the first-level cache at most, or the keys that come through the cache push it out each time (one row in
 * each of 32 heads, 4096 keys of 128 channels: panels of 32 instead of 64 keys are 4% faster, 8% where four heads share
 * keys). Three eighths, on AMD family 25 model 17 panels of 48 instead of 32 keys of 64 channels, are faster where keys
 * are in a cache (300 keys, four heads: AVX2 1.07 to 1.10, AVX-512 1.02); from memory, as in decoding, they are 0.89 to
 * 1.03 (AVX-512) and 0.96 to 1.06 times as fast (AVX2; one or four heads, 94 to 4000 keys).
 *
 * The keys of few rows come from memory, which is not idle for long while a small panel is computed with: on AMD family
 * 26 model 2 panels of 32 keys of 64 channels instead of 64 are 0.98 to 1.07 times as fast (AVX-512, 1488 to 4096 keys
 * of 8 or 32 heads; 0.95 to 0.97 where keys are in a cache), of 16 keys of 128 channels instead of 32 1.11 (AVX2, 2048
 * keys of 32 heads; 0.90 in a cache). One tile takes all rows: of four heads that share 128 channels,
 * gemm_f32_6x16_avx2 is 1.03 to 1.05 times as fast as gemm_f32_3x32_avx2. */
static const fv_kernel *default_score(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const fv_target target = plan->ctx->target;
    const fv_kernel *score = fv_gemm_for(FV_TYPE_f32, target, plan->rows, fv_max(fv_min(d->kv_len, FV_SEGMENT), 1));
    const bool few = plan->rows <= FV_ATTENTION_FEW_ROWS;
    const int64_t near = keys_fitting_l1(plan), keys = few ? fv_min(near, STREAM_FLOATS / d->head_dim) : near;
    if (plan->rows > fitting_rows(plan) || panel_of(score) <= keys)
        return score;
    const int64_t least = fv_max(2 * fv_isa_lanes(score->isa), FV_LANES);
    return fv_gemm_for_tile(FV_TYPE_f32, target, plan->rows, fv_max(fv_round_down(keys, FV_LANES), least));
}

/* Keys of a packed panel. Where blocks have many tiles, it is about CALL_KEYS wide, as far as it stays near: a gemm of
 * 24 rows and the 16 keys of one 6x16 tile was so short that 2048 x 64 on AVX2 took 1.5% longer (Intel, family 6 model
 * 207; 128 keys gave no more). A block of one tile packs a panel just before its gemm, the less the better. */
static int64_t panel_keys(const fovea_attention_plan *plan) {
    const int64_t least = panel_of(plan->choice.score);
    return plan->rows <= fitting_rows(plan) ? least
                                            : least * fv_max(fv_min(keys_fitting_l1(plan), CALL_KEYS) / least, 1);
}

/* The gemm of values, which stream through it where the rows are few. */
static const fv_kernel *default_value(const fovea_attention_plan *plan) {
    const int64_t columns = fv_min(plan->desc.value_dim, 4096);
    return plan->rows <= FV_ATTENTION_FEW_ROWS ? fv_gemm_for_stream(FV_TYPE_f32, plan->ctx->target, plan->rows, columns)
                                               : fv_gemm_for(FV_TYPE_f32, plan->ctx->target, plan->rows, columns);
}

/* Rows of a block at most, so that each thread has four and none waits long for the last. */
static int64_t rows_for_threads(const fovea_attention_plan *plan) {
    int64_t all;
    if (plan->ctx->threads.count == 1 || !fv_multiply(plan->rows, plan->desc.batch * plan->desc.kv_heads, &all))
        return INT64_MAX;
    return all / plan->ctx->threads.count / 4;
}

/* The most keys that a row sees. */
static int64_t most_seen(const fovea_attention_desc *d) {
    if (d->window_left < 0 || (d->causal == FOVEA_CAUSAL_NONE && d->window_right < 0))
        return d->kv_len;
    const int64_t right = d->causal != FOVEA_CAUSAL_NONE ? 0 : d->window_right;
    return d->window_left < d->kv_len - right ? d->window_left + right : d->kv_len;
}

/* Rows of a tile. Each tile reads all packed panels and values of a segment, and takes time besides its products, so it
 * has many rows, whose scores take a sixth of the second-level cache. As few as have scores half the size of the
 * first-level cache are slower (144 instead of 24 rows, AVX-512 | AVX2, times as fast on AMD family 26 model 2 and
 * family 25 model 17: 2048 x 64 1.028 | 1.007 and 1.011 | 1.013; causal 1.027 | 1.007 and 1.014 | 1.012; 12 heads of
 * 512 x 64 1.027 | 1.019 and 1.019 | 1.021; on Intel family 6 model 207 8 x 12 heads of 128 x 64 and 94 x 32, 96
 * instead of 24 rows, 1.02 and 1.04, longer ones not measured).
 *
 * Where rows see different keys, a tile of few rows computes fewer scores that nobody sees. So it stays with few where
 * a row sees few keys, and each others (causal 512 x 64 1.00 | 1.01, 373 x 32 1.02 | 0.98, a window of 64 0.965 on
 * AVX-512), and where one tile would take the place of several, which fetches less ahead (128 and 64 rows of 2048 keys
 * 0.975 to 0.985): there a tile is two register tiles at least, and WHOLE_ROWS where these are narrow. A whole key head
 * of few rows is one tile. */
static int64_t default_tile_rows(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t fitting = fitting_rows(plan), half = fitting / 2;
    const bool limited = fv_attention_limited(d);
    if (plan->rows <= fitting)
        return plan->rows;
    const int64_t fewer =
        fv_max(half, limited && plan->choice.score->nr >= CALL_KEYS ? 2 * plan->choice.value->mr : WHOLE_ROWS);
    if (limited && most_seen(d) < LONG_KEYS)
        return fewer;
    const int64_t many = l2_of(plan) / 6 / (FV_SEGMENT * (int64_t)sizeof(float));
    const int64_t whole = fv_max(fv_round_down(fv_min(many, MANY_ROWS), WHOLE_ROWS), WHOLE_ROWS);
    const bool several = fv_min(plan->rows, rows_for_threads(plan)) > whole;
    return several || d->kv_len <= FV_SEGMENT ? whole : fewer;
}

/* Rows of a block: queries and outputs of the block, a segment of keys and one of values take three quarters of the
 * second-level cache; but no more rows than give each thread four blocks. */
static int64_t default_block_rows(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t channels = d->head_dim + plan->o_stride, floats = l2_of(plan) / (int64_t)sizeof(float) / 4 * 3;
    const int64_t fitting = (floats - FV_SEGMENT * channels) / channels;
    const int64_t rows = fv_min(fv_max(fitting, 64), 1024);
    const int64_t tile = plan->choice.tile_rows, least = tile > 2 * fitting_rows(plan) ? WHOLE_ROWS : tile;
    return fv_min(rows, fv_max(rows_for_threads(plan), least));
}

/* Rows of which blocks are equal parts: those of a key head, or, where causality or a window limits the keys of
 * grouped heads, those of each of them, as the end of one sees all keys and the beginning of the next few (8 heads of
 * 285 x 128, two of keys, 3.7% faster on AVX-512; 512 and 876 x 128, a half or a quarter of a head 1.02 to 1.03 times
 * as fast as blocks of that size across heads, AMD family 25 model 17). */
static int64_t rows_to_partition(const fovea_attention_plan *plan) {
    const int64_t head = plan->desc.q_len;
    return plan->group > 1 && fv_attention_limited(&plan->desc) && head >= FV_COPY_ROWS ? head : plan->rows;
}

/* The most segments that a window lets the queries of a sequence see, wherever they stand. */
static int64_t window_segments(const fovea_attention_desc *d) {
    const int64_t right = d->causal != FOVEA_CAUSAL_NONE ? 0 : d->window_right;
    const int64_t keys = d->window_left + right + d->q_len;
    return (keys + FV_SEGMENT - 2) / FV_SEGMENT + 1;
}

/* Segments of a task where rows are split over keys, or -1: worth it only if there are too few blocks to keep the
 * threads busy, and each block is one tile. */
static int64_t default_split(const fovea_attention_plan *plan) {
    if (plan->ctx->threads.count == 1 || plan->items >= 2 * (int64_t)plan->ctx->threads.count ||
        plan->seen_segments < 2 || plan->choice.block_rows > plan->choice.tile_rows)
        return -1;
    return fv_max(plan->seen_segments * plan->items / (4 * (int64_t)plan->ctx->threads.count), 1);
}

/* Are the partial results of split rows more memory than a row of a tuning file may cost? */
static bool partials_are_large(const fovea_attention_plan *plan) {
    const int64_t most = (int64_t)64 << 20;
    int64_t bytes;
    return !fv_multiply(plan->items, plan->seen_segments, &bytes) ||
           !fv_multiply(bytes, plan->choice.block_rows * (int64_t)sizeof(float), &bytes) ||
           !fv_multiply(bytes, plan->o_stride + 2, &bytes) || bytes > most;
}

/* The row of the context's tuning file for a plan, or NULL and why. */
static const fv_tuning_row *find_row(const fovea_context *ctx, const fovea_attention_desc *desc, char *why,
                                     size_t size) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_attention_tuning_keys(desc, key);
    return fv_tuning_use_find(&ctx->tuning, op, key, why, size);
}

/* Of queries, keys, values and outputs. */
static int64_t item_bytes(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    int64_t bytes;
    return fv_multiply(d->head_dim + d->value_dim, (int64_t)sizeof(float), &bytes) &&
                   fv_multiply(bytes, plan->choice.block_rows + d->kv_len, &bytes)
               ? bytes
               : INT64_MAX;
}

/* The gemms of an item of so few rows ask for less than all of the next item; half a segment ahead (prefetch.h)
 * they ask for all. One row of 64 to 256 keys of 64 channels and four of 100 and 200 keys of 128, from memory, are 1.2
 * to 1.4 times as fast for it on AVX2, 1.0 to 1.2 on AVX-512, 0.98 to 1.01 if all is in the second-level cache (AMD
 * family 25 model 17); four rows of 16 keys and eight of 8 were 0.86 to 1.01. */
static bool few_rows_of_many_keys(const fovea_attention_plan *plan) {
    enum { MANY = 8 }; /* times as many */
    return plan->rows <= plan->choice.value->mr && plan->desc.kv_len >= MANY * plan->rows;
}

static void choose(fovea_attention_plan *plan, const fv_attention_choice *wanted) {
    const fovea_attention_desc *d = &plan->desc;
    fv_attention_choice *c = &plan->choice;
    assert(!wanted || ((!wanted->score || fv_kernel_is(wanted->score, FV_OP_gemm, FV_TYPE_f32, plan->ctx->target)) &&
                       (!wanted->value || fv_kernel_is(wanted->value, FV_OP_gemm, FV_TYPE_f32, plan->ctx->target))));
    if (wanted)
        *c = *wanted;
    if (c->cache_scale <= 0)
        c->cache_scale = plan->ctx->tuning.cache_scale;
    if (!c->score)
        c->score = default_score(plan);
    if (!c->value)
        c->value = default_value(plan);
    plan->panel = panel_keys(plan);
    plan->edge_rows = fv_max(c->score->mr, c->value->mr);
    plan->o_stride = fv_round_up(d->value_dim, FV_LANES);
    plan->s_stride =
        fv_round_up(FV_SEGMENT, plan->panel) + FV_LANES; /* not a power of two: rows in different cache sets */
    if (c->tile_rows <= 0)
        c->tile_rows = default_tile_rows(plan);
    c->tile_rows = fv_min(c->tile_rows, plan->rows);
    if (c->block_rows <= 0)
        c->block_rows = default_block_rows(plan);
    plan->partition_rows = rows_to_partition(plan);
    /* Of equal length: without limits 1.8% faster. */
    c->block_rows = fv_ceil_div(plan->partition_rows, fv_ceil_div(plan->partition_rows, c->block_rows));
    plan->blocks = plan->rows / plan->partition_rows * fv_ceil_div(plan->partition_rows, c->block_rows);
    c->tile_rows = fv_min(c->tile_rows, c->block_rows);
    plan->items = d->batch * d->kv_heads * plan->blocks;
    plan->segments = fv_ceil_div(d->kv_len, FV_SEGMENT);
    plan->seen_segments = fv_min(plan->segments, window_segments(d));
    plan->fetches_next = item_bytes(plan) <= l2_of(plan) / 4 && !few_rows_of_many_keys(plan);
    if (plan->segments < 1)
        c->split_segments = -1;
    else if (c->split_segments == 0)
        c->split_segments = default_split(plan);
}

static void take_kernels(fovea_attention_plan *plan) {
    const fv_target target = plan->ctx->target;
    plan->kernels = (fv_attention_kernels){
        .score = plan->choice.score->run.gemm_f32,
        .value = plan->choice.value->run.gemm_f32,
        .value_skip = fv_kernel_best(FV_OP_gemm_masked, FV_TYPE_f32, target)->run.gemm_masked_f32,
        .scale = fv_kernel_best(FV_OP_scale, FV_TYPE_f32, target)->run.scale_f32,
        .copy = fv_kernel_best(FV_OP_copy, FV_TYPE_f32, target)->run.copy_f32,
        .pack = fv_kernel_best(FV_OP_pack, FV_TYPE_f32, target)->run.pack_f32,
        .softmax = fv_kernel_best(FV_OP_softmax, FV_TYPE_f32, target)->run.softmax_f32,
        .merge = fv_kernel_best(FV_OP_merge, FV_TYPE_f32, target)->run.merge_f32,
        .accumulate = fv_kernel_best(FV_OP_accumulate, FV_TYPE_f32, target)->run.accumulate_f32,
        .finish = fv_kernel_best(FV_OP_finish, FV_TYPE_f32, target)->run.finish_f32,
        .mask_to_bits = fv_kernel_best(FV_OP_mask_to_bits, FV_TYPE_u8, target)->run.mask_to_bits_u8,
        .add_mask = fv_kernel_best(FV_OP_add_mask, FV_TYPE_f32, target)->run.add_mask_f32,
        .weights = fv_kernel_best(FV_OP_weights, FV_TYPE_f32, target)->run.weights_f32,
        .finite = fv_kernel_best(FV_OP_finite, FV_TYPE_f32, target)->run.finite_f32,
    };
}

fv_item fv_attention_item(const fovea_attention_plan *plan, int64_t item) {
    assert(item >= 0 && item < plan->items);
    const int64_t rows = plan->choice.block_rows, parts = fv_ceil_div(plan->partition_rows, rows);
    const int64_t head = item / plan->blocks, block = item % plan->blocks, done = block % parts * rows;
    return (fv_item){.batch = head / plan->desc.kv_heads,
                     .kv_head = head % plan->desc.kv_heads,
                     .first_row = block / parts * plan->partition_rows + done,
                     .rows = fv_min(rows, plan->partition_rows - done)};
}

/* Floats of the partial results of one segment of one block. */
static int64_t partial_floats(const fovea_attention_plan *plan) {
    return plan->choice.block_rows * (plan->o_stride + 2);
}

fv_partial fv_attention_partial(const fovea_attention_plan *plan, char *partials, int64_t item, int64_t segment) {
    assert(item >= 0 && item < plan->items && segment >= 0 && segment < plan->seen_segments);
    float *o = (float *)(void *)partials + (item * plan->seen_segments + segment) * partial_floats(plan);
    float *m = o + plan->choice.block_rows * plan->o_stride;
    return (fv_partial){.o = o, .m = m, .l = m + plan->choice.block_rows};
}

/* False if the workspace would be larger than memory. */
static bool lay_out(fovea_attention_plan *plan) {
    const int64_t f = (int64_t)sizeof(float), block = plan->choice.block_rows, tile = plan->choice.tile_rows;
    fv_attention_scratch *s = &plan->scratch;
    int64_t at = 0, keys;
    if (!fv_multiply(fv_round_up(FV_SEGMENT, plan->panel), plan->desc.head_dim, &keys))
        return false;
    const bool copies = block >= FV_COPY_ROWS;
    const int64_t columns = copies ? fv_round_up(plan->desc.value_dim, plan->choice.value->nr) : 0;
    s->q = fv_reserve(&at, block, plan->desc.head_dim * f);
    s->o = fv_reserve(&at, block, plan->o_stride * f);
    s->max = fv_reserve(&at, block, f);
    s->sum = fv_reserve(&at, block, f);
    s->lse = fv_reserve(&at, block, f);
    s->tiles = fv_reserve(&at, fv_ceil_div(block, tile), (int64_t)sizeof(fv_tile_rows));
    s->ranges = fv_reserve(&at, block, (int64_t)sizeof(fv_range));
    s->k = fv_reserve(&at, keys, f);
    s->v = fv_reserve(&at, columns, FV_SEGMENT * f);
    s->s = fv_reserve(&at, tile, plan->s_stride * f);
    s->bits = fv_reserve(&at, tile, (int64_t)sizeof(fv_keybits));
    s->lanes = fv_reserve(&at, tile, FV_LANES * f);
    s->groups = fv_reserve(&at, fv_ceil_div(tile, plan->edge_rows), (int64_t)sizeof(fv_range));
    s->m = fv_reserve(&at, tile, f);
    s->l = fv_reserve(&at, tile, f);
    s->a = fv_reserve(&at, tile, f);
    s->b = fv_reserve(&at, tile, f);
    s->granule = fv_reserve(&at, FV_LANES * f, plan->desc.head_dim);
    s->chain = fv_reserve(&at, tile, plan->o_stride * f);
    s->bytes = at;

    int64_t units = plan->items, floats = 0;
    const bool split = plan->choice.split_segments > 0;
    if (split &&
        (!fv_multiply(plan->items, plan->seen_segments, &units) || !fv_multiply(units, partial_floats(plan), &floats)))
        return false;
    plan->tasks = fv_min(units, plan->ctx->threads.count);
    at = 0;
    if (s->bytes < 0)
        return false;
    fv_reserve(&at, plan->tasks, s->bytes);
    plan->partials = fv_reserve(&at, floats, f);
    plan->bytes = fv_reserve(&at, 1, FV_ALIGNMENT) + FV_ALIGNMENT;
    return at >= 0;
}

/* Says who decided; a sentence without its end. */
static void describe_origin(const fovea_attention_plan *plan, char *text, size_t size) {
    if (plan->tuned) {
        fv_tuning_describe_row(plan->tuned, plan->ctx->tuning.path, text, size);
        const size_t used = strlen(text);
        if (plan->kernels_only)
            snprintf(text + used, size - used,
                     "; but not its sizes, by which split rows would take more memory than a file may ask for");
        return;
    }
    char why[640] = "the caller chose";
    if (!plan->chosen)
        find_row(plan->ctx, &plan->desc, why, sizeof why);
    snprintf(text, size, "no: %s; defaults from caches of %lld KiB and %lld KiB", why, (long long)l1_of(plan) / 1024,
             (long long)l2_of(plan) / 1024);
}

static void debug(const fovea_attention_plan *plan) {
    const fovea_attention_desc *d = &plan->desc;
    char origin[1024];
    describe_origin(plan, origin, sizeof origin);
    fprintf(stderr,
            "fovea plan: batch %lld, heads %lld / %lld, queries %lld, keys %lld, channels %lld / %lld: scores %s, "
            "values %s, blocks of %lld rows, tiles of %lld; tuned %s\n",
            (long long)d->batch, (long long)d->q_heads, (long long)d->kv_heads, (long long)d->q_len,
            (long long)d->kv_len, (long long)d->head_dim, (long long)d->value_dim, plan->choice.score->name,
            plan->choice.value->name, (long long)plan->choice.block_rows, (long long)plan->choice.tile_rows, origin);
}

fovea_status fv_attention_plan_create_chosen(const fovea_context *ctx, const fovea_attention_desc *given,
                                             const fv_attention_choice *choice, fovea_attention_plan **plan) {
    if (!plan)
        return fv_fail(FOVEA_ERROR_NULL, "plan is NULL: there is nowhere to put the plan");
    *plan = NULL;
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    fovea_attention_desc own;
    const fovea_attention_desc *desc = &own;
    const fovea_status status = fv_attention_read_desc(given, &own);
    if (status != FOVEA_OK)
        return status;
    fovea_attention_plan *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a plan (%zu bytes)", sizeof *made);
    made->ctx = ctx;
    made->desc = *desc;
    made->group = desc->q_heads / desc->kv_heads;
    made->rows = made->group * desc->q_len;
    made->scale = fv_score_scale((float)(desc->has_scale ? desc->scale : 1.0 / sqrt((double)desc->head_dim)));
    fv_attention_choice tuned = {0};
    char why[640];
    if (choice)
        made->chosen = true;
    else if ((made->tuned = find_row(ctx, desc, why, sizeof why)) != NULL) {
        fv_tuning_to_choice(made->tuned->operation, made->tuned->knob, &tuned);
        choice = &tuned;
    }
    if (desc->window_left < 0 || desc->window_left > FV_NO_LIMIT)
        made->desc.window_left = FV_NO_LIMIT;
    if (desc->window_right < 0 || desc->window_right > FV_NO_LIMIT)
        made->desc.window_right = FV_NO_LIMIT;
    choose(made, choice);
    const bool by_file = made->tuned || (!made->chosen && ctx->tuning.cache_scale != 100);
    if (by_file && made->choice.split_segments > 0 && partials_are_large(made)) {
        const fv_attention_choice kernels = {.score = tuned.score, .value = tuned.value, .cache_scale = 100};
        choose(made, &kernels);
        made->kernels_only = true;
    }
    take_kernels(made);
    if (!lay_out(made)) {
        free(made);
        return fv_fail(FOVEA_ERROR_OVERFLOW,
                       "head_dim %lld, value_dim %lld: the workspace is more than any memory holds",
                       (long long)desc->head_dim, (long long)desc->value_dim);
    }
    if (ctx->debug)
        debug(made);
    *plan = made;
    return FOVEA_OK;
}

fovea_status fovea_attention_plan_create(const fovea_context *ctx, const fovea_attention_desc *desc,
                                         fovea_attention_plan **plan) {
    FV_HOLD_EXCEPTIONS();
    return fv_attention_plan_create_chosen(ctx, desc, NULL, plan);
}

void fovea_attention_plan_destroy(fovea_attention_plan *plan) { free(plan); }

size_t fovea_attention_plan_workspace_size(const fovea_attention_plan *plan) { return plan ? (size_t)plan->bytes : 0; }

size_t fovea_attention_plan_describe(const fovea_attention_plan *plan, char *text, size_t size) {
    FV_HOLD_EXCEPTIONS();
    if (!plan)
        return (size_t)snprintf(text, size, "no plan");
    const fv_attention_choice *c = &plan->choice;
    char split[96] = "never", origin[1024];
    describe_origin(plan, origin, sizeof origin);
    if (c->split_segments > 0)
        snprintf(split, sizeof split, "in tasks of %lld segments of %d keys", (long long)c->split_segments, FV_SEGMENT);
    return (size_t)snprintf(text, size,
                            "tier    %s\nscores  %s, keys packed in panels of %lld\nvalues  %s\nblocks  %lld of %lld "
                            "rows, in tiles of %lld\n"
                            "split   %s\nthreads %lld of %d, workspace %lld bytes\ntuned   %s\n",
                            fv_isa_word(plan->ctx->target.isa), c->score->name, (long long)plan->panel, c->value->name,
                            (long long)plan->items, (long long)c->block_rows, (long long)c->tile_rows, split,
                            (long long)plan->tasks, plan->ctx->threads.count, (long long)plan->bytes, origin);
}
