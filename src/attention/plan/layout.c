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

/* The next part of the scratch: count * bytes bytes. */
static void *part(char *memory, int64_t *at, int64_t count, int64_t bytes) {
    const int64_t place = fv_reserve(at, count, bytes);
    return (void *)((uintptr_t)memory + (uintptr_t)place);
}

/* Does any source of the plan take queries in a form? */
static bool takes_form(const fovea_attention_plan *plan, fv_query_form form) {
    bool takes = form == FV_QUERIES_floats; /* others are made of them, or fall back to them */
    for (int i = 0; i < FV_KEYS_COUNT; i++)
        takes = takes || (plan->sources.k[i] && fv_keys_sources[i]->form == form);
    return takes;
}

int64_t fv_scratch_at(const fovea_attention_plan *plan, void *memory, fv_scratch *s) {
    const int64_t f = (int64_t)sizeof(float), block = plan->choice.block_rows, tile = plan->choice.tile_rows,
                  dim = plan->desc.head_dim, keys = fv_keys_scratch(&plan->sources),
                  values = fv_values_scratch(&plan->sources);
    int64_t at = 0;
    for (int form = 0; form < FV_QUERY_FORMS; form++)
        s->queries[form] = part(memory, &at, takes_form(plan, (fv_query_form)form) ? block : 0,
                                fv_queries_floats(&plan->sources, (fv_query_form)form) * f);
    s->o = part(memory, &at, block, plan->o_stride * f);
    s->max = part(memory, &at, block, f);
    s->sum = part(memory, &at, block, f);
    s->lse = part(memory, &at, block, f);
    s->tiles = part(memory, &at, fv_ceil_div(block, tile), (int64_t)sizeof(fv_tile_rows));
    s->ranges = part(memory, &at, block, (int64_t)sizeof(fv_range));
    s->groups = part(memory, &at, fv_ceil_div(tile, plan->edge_rows), (int64_t)sizeof(fv_range));
    s->k = part(memory, &at, fv_max(keys, 0), f);
    s->v = part(memory, &at, fv_max(values, 0), f);
    s->gathered = part(memory, &at, FV_LANES * f, fv_round_up(dim, FV_LANES));
    s->p = part(memory, &at, fv_values_weights(&plan->sources, tile), f);
    s->s = part(memory, &at, tile, plan->s_stride * f);
    s->bits = part(memory, &at, tile, (int64_t)sizeof(fv_keybits));
    s->lanes = part(memory, &at, tile, FV_LANES * f);
    s->m = part(memory, &at, tile, f);
    s->l = part(memory, &at, tile, f);
    s->a = part(memory, &at, tile, f);
    s->b = part(memory, &at, tile, f);
    s->chain = part(memory, &at, tile, plan->o_stride * f);
    s->line = part(memory, &at, line_floats(plan), f);
    return keys < 0 || values < 0 ? -1 : at;
}

/* Are the partial results of split rows more memory than a row may cost? */
static bool partials_large(const fovea_attention_plan *plan) {
    const int64_t most = (int64_t)64 << 20;
    int64_t bytes;
    return !fv_multiply(plan->row_blocks, plan->visible_segments, &bytes) ||
           !fv_multiply(bytes, plan->choice.block_rows * (int64_t)sizeof(float), &bytes) ||
           !fv_multiply(bytes, plan->o_stride + 2, &bytes) || bytes > most;
}

/* Is a thread's scratch? It may be about twice what defaults take at most, with blocks of 1,024 rows. */
static bool scratch_large(const fovea_attention_plan *plan) {
    enum { FIXED = 1 << 20, CHANNEL = 16 << 10 };
    const int64_t channels = fv_min(plan->desc.head_dim, INT32_MAX) + fv_min(plan->desc.value_dim, INT32_MAX);
    fv_scratch scratch;
    const int64_t bytes = fv_scratch_at(plan, NULL, &scratch);
    return bytes < 0 || bytes > FIXED + channels * CHANNEL;
}

bool fv_attention_sizes_large(const fovea_attention_plan *plan) {
    return scratch_large(plan) || (plan->choice.split_segments > 0 && partials_large(plan));
}

/* False if the workspace would be larger than memory. */
bool fv_attention_lay_out(fovea_attention_plan *plan, int64_t caller_bytes) {
    const int64_t f = (int64_t)sizeof(float);
    fv_scratch scratch;
    int64_t at = 0;
    plan->scratch = fv_scratch_at(plan, NULL, &scratch);
    plan->partial_floats = fv_schedule_partial_floats(plan);
    int64_t items = plan->row_blocks;
    if (plan->partial_floats < 0 || (plan->partial_floats > 0 && !fv_multiply(items, plan->visible_segments, &items)))
        return false;
    plan->tasks = fv_min(items, plan->choice.threads);
    if (plan->scratch < 0)
        return false;
    fv_reserve(&at, plan->tasks, plan->scratch);
    plan->table = fv_reserve(&at, 1, fv_schedule_bytes(plan));
    if (caller_bytes < 0)
        return false;
    plan->caller = fv_reserve(&at, 1, caller_bytes);
    plan->partials = fv_reserve(&at, plan->partial_floats, f);
    plan->bytes = fv_reserve(&at, 1, FV_ALIGNMENT) + FV_ALIGNMENT;
    return at >= 0;
}
