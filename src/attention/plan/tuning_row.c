/* The row of a tuning file that an attention gets (tuning.h). */
#include "attention/attention.h"
#include "attention/plan/knobs.h"
#include "attention/visible/mask.h"
#include "context/context.h"
#include "core/core.h"

#include <string.h>

/* Does a mask let rows see different keys? Where tiles end is then another matter than with causality or a window: a
 * tile that was best without masks made documents up to 1.19 times as slow. Nothing else that happens to scores moves
 * the best tile (docs/lab/attention.md). */
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
    return fv_tuning_use_find(ctx->tuning, op, key, why, size);
}
