/* Attentions and tuning files (tuning.h), and what the file has for one (fovea_tuning_lookup). */
#include "attention/plan/tuning.h"

#include "attention/plan/plan.h"
#include "attention/visible/mask.h"
#include "attention/visible/visible.h"
#include "core/core.h"

#include <string.h>

/* Largest blocks and tiles: a row may cost memory, but not much. The planner's own end at 1024 rows. */
enum { MOST_ROWS = 4096, MOST_SEGMENTS = 65536 };

#define KEYS(least, most)                                                                                              \
    {                                                                                                                  \
        [FV_ATTENTION_KEY_head_dim] = {"head_dim", {1, INT64_MAX}},                                                    \
        [FV_ATTENTION_KEY_value_dim] = {"value_dim", {1, INT64_MAX}},                                                  \
        [FV_ATTENTION_KEY_limited] = {"limited", {FV_ATTENTION_LIMITED_no, FV_ATTENTION_LIMITED_masked}},              \
        [FV_ATTENTION_KEY_group] = {"group", {1, INT64_MAX}}, [FV_ATTENTION_KEY_units] = {"units", {1, INT64_MAX}},    \
        [FV_ATTENTION_KEY_keys] = {"keys", {0, INT64_MAX}}, [FV_ATTENTION_KEY_rows] = {"rows", {least, most}},         \
    }
static const fv_tuning_key many_keys[] = KEYS(FV_ATTENTION_FEW_ROWS + 1, INT64_MAX),
                           few_keys[] = KEYS(1, FV_ATTENTION_FEW_ROWS);
_Static_assert((int)FV_ATTENTION_KEYS <= (int)FV_TUNING_KEYS, "room for keys");

#define FIELD(name) offsetof(fv_attention_choice, name)
static const fv_tuning_knob knobs[] = {
    [FV_ATTENTION_KNOB_score] = {"score", FV_TUNING_KERNEL, FIELD(score)},
    [FV_ATTENTION_KNOB_value] = {"value", FV_TUNING_KERNEL, FIELD(value)},
    [FV_ATTENTION_KNOB_block_rows] = {"block_rows", FV_TUNING_NUMBER, FIELD(block_rows), {1, MOST_ROWS}},
    [FV_ATTENTION_KNOB_tile_rows] = {"tile_rows", FV_TUNING_NUMBER, FIELD(tile_rows), {1, MOST_ROWS}},
    [FV_ATTENTION_KNOB_split] = {"split_segments", FV_TUNING_NUMBER, FIELD(split_segments), {-1, MOST_SEGMENTS}},
};
_Static_assert((int)FV_ATTENTION_KNOBS <= (int)FV_TUNING_KNOBS, "room for knobs");

const fv_tuning_operation fv_tuning_attention = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, many_keys, knobs},
                          fv_tuning_attention_few = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, few_keys, knobs};

/* Does a mask let rows see different keys? Where tiles end is then another matter than with causality or a window: a
 * tile that was best without masks made documents up to 1.19 times as slow. Nothing else that happens to scores moves
 * the best tile (docs/measurements.md, "attention/tuning.c"). */
static bool masked(const fovea_attention_desc *d) {
    return d->q_len > 1 && fv_mask_selects(d->mask) && d->mask != FOVEA_MASK_KEY_PADDING;
}

fv_tuning_op fv_attention_tuning_keys(const fovea_attention_desc *d, int64_t key[FV_TUNING_KEYS]) {
    const int64_t group = d->q_heads / fv_max(d->kv_heads, 1), rows = group * d->q_len;
    memset(key, 0, FV_TUNING_KEYS * sizeof *key);
    key[FV_ATTENTION_KEY_head_dim] = d->head_dim;
    key[FV_ATTENTION_KEY_value_dim] = d->value_dim;
    key[FV_ATTENTION_KEY_limited] = masked(d)                  ? FV_ATTENTION_LIMITED_masked
                                    : fv_attention_windowed(d) ? FV_ATTENTION_LIMITED_window
                                    : fv_attention_limited(d)  ? FV_ATTENTION_LIMITED_causal
                                                               : FV_ATTENTION_LIMITED_no;
    key[FV_ATTENTION_KEY_group] = group;
    key[FV_ATTENTION_KEY_units] = (d->packed ? 1 : d->batch) * d->kv_heads; /* of packed ones one is as long as told */
    key[FV_ATTENTION_KEY_keys] = d->kv_len;
    key[FV_ATTENTION_KEY_rows] = rows;
    return fv_tuning_of(FV_TUNING_attention_f32, d->k_dtype ? d->k_dtype : d->dtype, d->arithmetic,
                        rows <= FV_ATTENTION_FEW_ROWS);
}

void fovea_tuning_match_init_size(fovea_tuning_match *match, size_t size) {
    const size_t nothing = 0;
    fv_struct_init(match, size, &nothing, sizeof nothing);
}

static void look_up(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                    fovea_tuning_match *match) {
    fv_tuning_section own;
    fv_tuning_section_of(&ctx->cpu, &own);
    const int section = fv_tuning_section_find(tuning, &own);
    if (section < 0) {
        fv_tuning_why_foreign(tuning, &own, match->reason, sizeof match->reason);
        return;
    }
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_attention_tuning_keys(desc, key);
    const fv_tuning_row *row = fv_tuning_find(tuning, section, op, ctx->target.isa, ctx->threads.count, key);
    if (!row) {
        fv_tuning_why_not(tuning, section, op, ctx->target.isa, ctx->threads.count, key, match->reason,
                          sizeof match->reason);
        return;
    }
    match->found = 1;
    match->line = row->line;
    match->gain = (double)row->evidence.gain / 1000;
    match->gain_low = (double)row->evidence.low / 1000;
    match->gain_high = (double)row->evidence.high / 1000;
    fv_tuning_print_row(row, match->row);
}

fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                                 fovea_tuning_match *match) {
    FV_HOLD_EXCEPTIONS();
    if (!tuning || !ctx || !match)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !tuning ? "tuning" : !ctx ? "ctx" : "match");
    const fv_struct type = FV_STRUCT(fovea_tuning_match);
    fovea_attention_desc own_desc;
    fovea_status status = fv_struct_check(type, match);
    if (status == FOVEA_OK)
        status = fv_attention_read_desc(desc, &own_desc);
    if (status == FOVEA_OK)
        status = fv_attention_select_arithmetic(ctx, &own_desc);
    if (status != FOVEA_OK)
        return status;
    fovea_tuning_match own;
    fovea_tuning_match_init(&own);
    look_up(tuning, ctx, &own_desc, &own);
    fv_struct_write(type, match, &own);
    return FOVEA_OK;
}
