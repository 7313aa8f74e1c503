/* Rows of tuning files for attention (tuning/tuning.h): the sizes that select a row, and the choices it makes. */
#ifndef FV_ATTENTION_KNOBS_H
#define FV_ATTENTION_KNOBS_H

#include "attention/attention.h"
#include "tuning/tuning.h"

/* Up to this many rows (queries that share a key head) attention is bound by reading keys: such calls are a separate
 * operation, measured with keys and values outside all caches. */
enum { FV_ATTENTION_FEW_ROWS = 16 };

/* Dimensions first, lengths last. limited: FV_ATTENTION_LIMITED_...; group: query heads of a key head; units: key heads
 * of the batch. */
enum {
    FV_ATTENTION_KEY_head_dim,
    FV_ATTENTION_KEY_value_dim,
    FV_ATTENTION_KEY_limited,
    FV_ATTENTION_KEY_group,
    FV_ATTENTION_KEY_units,
    FV_ATTENTION_KEY_keys,
    FV_ATTENTION_KEY_rows,
    FV_ATTENTION_KEYS
};
enum { FV_ATTENTION_LIMITED_no, FV_ATTENTION_LIMITED_causal, FV_ATTENTION_LIMITED_window, FV_ATTENTION_LIMITED_masked };

/* fv_attention_choice is the same in another form (fv_tuning_to_choice(), fv_tuning_of_choice()). */
enum {
    FV_ATTENTION_KNOB_score,
    FV_ATTENTION_KNOB_value,
    FV_ATTENTION_KNOB_block_rows,
    FV_ATTENTION_KNOB_tile_rows,
    FV_ATTENTION_KNOB_split,
    FV_ATTENTION_KNOB_k,
    FV_ATTENTION_KNOB_v,
    FV_ATTENTION_KNOB_few_rows,
    FV_ATTENTION_KNOB_copy_rows,
    FV_ATTENTION_KNOB_amx_rows,
    FV_ATTENTION_KNOB_stream_rows,
    FV_ATTENTION_KNOB_threads,
    FV_ATTENTION_KNOB_cache_scale,
    FV_ATTENTION_KNOBS
};

/* A plan's behaviour as a choice: plans of one shape with equal fields do the same. cache_scale has what caches decide
 * besides sizes. */
fv_attention_choice fv_attention_effect(const fovea_attention_plan *plan);

/* The operation of a shape, of its keys' type and its arithmetic, and its keys. */
fv_tuning_op fv_attention_tuning_keys(const fovea_attention_desc *desc, int64_t key[FV_TUNING_KEYS]);

/* The row of the context's tuning file for a description, or NULL and why. */
const fv_tuning_row *fv_attention_tuning_row(const fovea_context *ctx, const fovea_attention_desc *desc, char *why,
                                             size_t size);

#endif
