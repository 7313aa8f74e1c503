/* The fields of rows for attentions: by which sizes they are found, and which choices they make (tuning.h). */
#include "attention/plan/tuning.h"

#include "attention/sources/source.h"

#include "attention/attention.h"

/* Largest blocks and tiles: a row may cost memory, but not much. The planner's own end at 1024 rows. */
enum { MOST_ROWS = 4096, MOST_COPY = 1 << 20, MOST_SEGMENTS = 65536 };

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
    [FV_ATTENTION_KNOB_k] = {"k", FV_TUNING_NAME, FIELD(k), {0, 0}, fv_keys_name},
    [FV_ATTENTION_KNOB_v] = {"v", FV_TUNING_NAME, FIELD(v), {0, 0}, fv_values_name},
    [FV_ATTENTION_KNOB_few_rows] = {"few_rows", FV_TUNING_NUMBER, FIELD(few_rows), {-1, MOST_ROWS}},
    [FV_ATTENTION_KNOB_copy_rows] = {"copy_rows", FV_TUNING_NUMBER, FIELD(copy_rows), {1, MOST_COPY}},
    [FV_ATTENTION_KNOB_amx_rows] = {"amx_rows", FV_TUNING_NUMBER, FIELD(amx_rows), {1, MOST_ROWS}},
    [FV_ATTENTION_KNOB_stream_rows] = {"stream_rows", FV_TUNING_NUMBER, FIELD(stream_rows), {-1, MOST_ROWS}},
    [FV_ATTENTION_KNOB_threads] = {"threads", FV_TUNING_NUMBER, FIELD(threads), {1, MOST_ROWS}},
};
_Static_assert((int)FV_ATTENTION_KNOBS <= (int)FV_TUNING_KNOBS, "room for knobs");

const fv_tuning_operation fv_tuning_attention = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, many_keys, knobs},
                          fv_tuning_attention_few = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, few_keys, knobs};
