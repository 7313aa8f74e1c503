/* How a plan's workspace is laid out. */
#include "attention/plan/schedule.h"
#include "core/core.h"

/* Floats of the lines of a block's relative biases (flash/relative.h). */
static int64_t line_floats(const fovea_attention_plan *plan) {
    const int64_t rows = plan->choice.block_rows;
    /* A head has all tokens or, where a sequence is shorter, fewer: each row may be of another head. */
    const int64_t heads = fv_min(rows, plan->group);
    return plan->desc.relative == FOVEA_RELATIVE_NONE ? 0 : heads * FV_SEGMENT + rows;
}

/* False if the workspace would be larger than memory. */
bool fv_attention_lay_out(fovea_attention_plan *plan, int64_t caller_bytes) {
    const int64_t f = (int64_t)sizeof(float), block = plan->choice.block_rows, tile = plan->choice.tile_rows;
    fv_attention_scratch *s = &plan->scratch;
    int64_t at = 0, keys;
    if (!fv_multiply(fv_round_up(FV_SEGMENT, plan->panel), plan->desc.head_dim, &keys))
        return false;
    const bool copies =
        plan->desc.v_dtype != FOVEA_DTYPE_I8 && (block >= FV_COPY_ROWS || plan->desc.v_dtype != FOVEA_DTYPE_F32);
    const int64_t columns = copies ? fv_round_up(plan->desc.value_dim, plan->choice.value->nr) : 0;
    s->q = fv_reserve(&at, block, plan->desc.head_dim * f);
    s->pairs = fv_reserve(&at, block, plan->pair_words * f);
    s->integers = fv_reserve(&at, fv_integers(&plan->desc) ? block : 0,
                             fv_i8_row_words(plan->desc.head_dim) * (int64_t)sizeof(fv_i8_word));
    s->o = fv_reserve(&at, block, plan->o_stride * f);
    s->max = fv_reserve(&at, block, f);
    s->sum = fv_reserve(&at, block, f);
    s->lse = fv_reserve(&at, block, f);
    s->tiles = fv_reserve(&at, fv_ceil_div(block, tile), (int64_t)sizeof(fv_tile_rows));
    s->ranges = fv_reserve(&at, block, (int64_t)sizeof(fv_range));
    s->k = fv_reserve(&at, keys, f);
    s->v = fv_reserve(&at, columns, FV_SEGMENT * f);
    s->p = fv_reserve(&at, plan->kernels.value_pairs ? tile : 0, FV_P_WORDS * f);
    s->s = fv_reserve(&at, tile, plan->s_stride * f);
    s->bits = fv_reserve(&at, tile, (int64_t)sizeof(fv_keybits));
    s->lanes = fv_reserve(&at, tile, FV_LANES * f);
    s->groups = fv_reserve(&at, fv_ceil_div(tile, plan->edge_rows), (int64_t)sizeof(fv_range));
    s->m = fv_reserve(&at, tile, f);
    s->l = fv_reserve(&at, tile, f);
    s->a = fv_reserve(&at, tile, f);
    s->b = fv_reserve(&at, tile, f);
    s->gathered = fv_reserve(&at, FV_LANES * f, plan->desc.head_dim);
    s->key_rows = fv_reserve(&at, FV_LANES * f, fv_round_up(plan->desc.head_dim, FV_LANES));
    s->chain = fv_reserve(&at, tile, plan->o_stride * f);
    s->line = fv_reserve(&at, line_floats(plan), f);
    s->bytes = at;

    plan->partial_floats = fv_schedule_partial_floats(plan);
    int64_t items = plan->row_blocks;
    if (plan->partial_floats < 0 || (plan->partial_floats > 0 && !fv_multiply(items, plan->visible_segments, &items)))
        return false;
    plan->tasks = fv_min(items, plan->ctx->threads.count);
    at = 0;
    if (s->bytes < 0)
        return false;
    fv_reserve(&at, plan->tasks, s->bytes);
    plan->table = fv_reserve(&at, 1, fv_schedule_bytes(plan));
    if (caller_bytes < 0)
        return false;
    plan->caller = fv_reserve(&at, 1, caller_bytes);
    plan->partials = fv_reserve(&at, plan->partial_floats, f);
    plan->bytes = fv_reserve(&at, 1, FV_ALIGNMENT) + FV_ALIGNMENT;
    return at >= 0;
}
