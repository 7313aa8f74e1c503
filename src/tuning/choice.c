/* Tunings and choices: which keys a shape has, and what a row means for its plan or linear map (tuning.h). */
#include "tuning/tuning.h"

#include "attention/visible.h"

#include <stdio.h>
#include <string.h>

fv_tuning_op fv_tuning_of_attention(const fovea_attention_desc *d, int64_t key[FV_TUNING_KEYS]) {
    const int64_t rows = d->q_heads / d->kv_heads * d->q_len;
    key[FV_KEY_rows] = rows;
    key[FV_KEY_keys] = d->kv_len;
    key[FV_KEY_head_dim] = d->head_dim;
    key[FV_KEY_value_dim] = d->value_dim;
    key[FV_KEY_units] = d->batch * d->kv_heads;
    key[FV_KEY_limited] = fv_attention_windowed(d)  ? FV_LIMITED_window
                          : fv_attention_limited(d) ? FV_LIMITED_causal
                                                    : FV_LIMITED_no;
    key[FV_KEY_group] = d->q_heads / d->kv_heads;
    return rows <= FV_TUNING_FEW_ROWS ? FV_TUNING_attention_few : FV_TUNING_attention;
}

fv_tuning_op fv_tuning_of_linear(int64_t rows, int64_t in, int64_t out, int64_t key[FV_TUNING_KEYS]) {
    memset(key, 0, FV_TUNING_KEYS * sizeof *key);
    key[FV_KEY_rows] = rows;
    key[FV_KEY_in] = in;
    key[FV_KEY_out] = out;
    return rows <= FV_TUNING_LINEAR_FEW_ROWS ? FV_TUNING_linear_few : FV_TUNING_linear;
}

fv_attention_choice fv_tuning_choice(const fv_tuning_value knob[FV_TUNING_KNOBS]) {
    return (fv_attention_choice){.score = knob[FV_KNOB_score].kernel,
                                 .value = knob[FV_KNOB_value].kernel,
                                 .block_rows = knob[FV_KNOB_block_rows].number,
                                 .tile_rows = knob[FV_KNOB_tile_rows].number,
                                 .split_segments = knob[FV_KNOB_split].number,
                                 .caches = knob[FV_KNOB_caches].number};
}

void fv_tuning_knobs(const fv_attention_choice *choice, fv_tuning_value knob[FV_TUNING_KNOBS]) {
    knob[FV_KNOB_score] = (fv_tuning_value){choice->score, 0};
    knob[FV_KNOB_value] = (fv_tuning_value){choice->value, 0};
    knob[FV_KNOB_block_rows] = (fv_tuning_value){NULL, choice->block_rows};
    knob[FV_KNOB_tile_rows] = (fv_tuning_value){NULL, choice->tile_rows};
    knob[FV_KNOB_split] = (fv_tuning_value){NULL, choice->split_segments};
    knob[FV_KNOB_caches] = (fv_tuning_value){NULL, choice->caches};
}

fv_linear_choice fv_tuning_linear_choice(const fv_tuning_value knob[FV_TUNING_KNOBS]) {
    return (fv_linear_choice){.gemm = knob[FV_KNOB_gemm].kernel,
                              .k_block = knob[FV_KNOB_k_block].number,
                              .row_block = knob[FV_KNOB_row_block].number,
                              .chunk = knob[FV_KNOB_chunk].number,
                              .items = knob[FV_KNOB_items].number,
                              .caches = knob[FV_KNOB_caches].number};
}

void fv_tuning_linear_knobs(const fv_linear_choice *choice, fv_tuning_value knob[FV_TUNING_KNOBS]) {
    knob[FV_KNOB_gemm] = (fv_tuning_value){choice->gemm, 0};
    knob[FV_KNOB_k_block] = (fv_tuning_value){NULL, choice->k_block};
    knob[FV_KNOB_row_block] = (fv_tuning_value){NULL, choice->row_block};
    knob[FV_KNOB_chunk] = (fv_tuning_value){NULL, choice->chunk};
    knob[FV_KNOB_items] = (fv_tuning_value){NULL, choice->items};
    knob[FV_KNOB_caches] = (fv_tuning_value){NULL, choice->caches};
}

void fv_tuning_describe_row(const fv_tuning_row *row, const char *path, char *text, size_t size) {
    const fv_tuning_evidence *e = &row->evidence;
    char caches[64] = "";
    if (row->knob[FV_KNOB_caches].number)
        snprintf(caches, sizeof caches, ", sizes as for caches of %lld %%",
                 (long long)row->knob[FV_KNOB_caches].number);
    snprintf(text, size, "yes: %.200s line %d, %.3f times as fast as the default (%.3f to %.3f)%s", path, row->line,
             (double)e->gain / 1000, (double)e->low / 1000, (double)e->high / 1000, caches);
}
