/* Tunings and attention: which keys a shape has, and what a row means for its plan (tuning.h). */
#include "tuning.h"

fv_tuning_op fv_tuning_of_attention(const fovea_attention_desc *d, int64_t key[FV_TUNING_KEYS]) {
    const int64_t rows = d->q_heads / d->kv_heads * d->q_len;
    key[FV_KEY_rows] = rows;
    key[FV_KEY_keys] = d->kv_len;
    key[FV_KEY_head_dim] = d->head_dim;
    key[FV_KEY_value_dim] = d->value_dim;
    key[FV_KEY_units] = d->batch * d->kv_heads;
    const int64_t no_limit = (int64_t)1 << 60; /* plans hold "no limit" as a larger number */
    const bool left = d->window_left >= 0 && d->window_left < no_limit;
    const bool right = d->window_right >= 0 && d->window_right < no_limit;
    const bool causal =
        d->causal != FOVEA_CAUSAL_NONE && d->q_len > 1; /* one query: as a rule the last, that sees all */
    key[FV_KEY_limited] = causal || left || right;
    return rows <= FV_TUNING_FEW_ROWS ? FV_TUNING_attention_few : FV_TUNING_attention;
}

fv_attention_choice fv_tuning_choice(const fv_tuning_value knob[FV_TUNING_KNOBS]) {
    return (fv_attention_choice){.score = knob[FV_KNOB_score].kernel,
                                 .value = knob[FV_KNOB_value].kernel,
                                 .block_rows = knob[FV_KNOB_block_rows].number,
                                 .tile_rows = knob[FV_KNOB_tile_rows].number,
                                 .split_segments = knob[FV_KNOB_split].number};
}

void fv_tuning_knobs(const fv_attention_choice *choice, fv_tuning_value knob[FV_TUNING_KNOBS]) {
    knob[FV_KNOB_score] = (fv_tuning_value){choice->score, 0};
    knob[FV_KNOB_value] = (fv_tuning_value){choice->value, 0};
    knob[FV_KNOB_block_rows] = (fv_tuning_value){NULL, choice->block_rows};
    knob[FV_KNOB_tile_rows] = (fv_tuning_value){NULL, choice->tile_rows};
    knob[FV_KNOB_split] = (fv_tuning_value){NULL, choice->split_segments};
}
