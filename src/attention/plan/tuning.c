/* Attentions and tuning files (tuning.h). */
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

const fv_tuning_row *fv_attention_tuning_row(const fovea_context *ctx, const fovea_attention_desc *desc, char *why,
                                             size_t size) {
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_attention_tuning_keys(desc, key);
    return fv_tuning_use_find(&ctx->tuning, op, key, why, size);
}
