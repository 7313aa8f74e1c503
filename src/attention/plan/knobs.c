/* The fields of rows for attentions: by which sizes they are found, and which choices they make (tuning.h). */
#include "attention/plan/knobs.h"

#include "attention/sources/source.h"

#include "attention/attention.h"

/* Largest blocks and tiles: a row may cost memory, but not much. The planner's own end at 1024 rows. */
enum { MOST_ROWS = 4096, MOST_COPY = 1 << 20, MOST_SEGMENTS = 65536 };
enum { AROUND = FV_TUNING_EIGHTHS | FV_TUNING_SIZE };

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

typedef fv_attention_choice choice;
static const fv_tuning_knob knobs[] = {
    [FV_ATTENTION_KNOB_score] = FV_KNOB_KERNEL(choice, score),
    [FV_ATTENTION_KNOB_value] = FV_KNOB_KERNEL(choice, value),
    [FV_ATTENTION_KNOB_block_rows] = FV_KNOB_NUMBER(choice, block_rows, 1, MOST_ROWS, AROUND, 4, 16, 2, 32, 128),
    [FV_ATTENTION_KNOB_tile_rows] = FV_KNOB_NUMBER(choice, tile_rows, 1, MOST_ROWS, AROUND, 4, 16, 2, 32, 12, 6),
    [FV_ATTENTION_KNOB_split] =
        FV_KNOB_NUMBER(choice, split_segments, -1, MOST_SEGMENTS, FV_TUNING_THREADED, -1, 1, 2, 4, 8),
    [FV_ATTENTION_KNOB_k] = FV_KNOB_NAME(choice, k, fv_keys_name),
    [FV_ATTENTION_KNOB_v] = FV_KNOB_NAME(choice, v, fv_values_name),
    [FV_ATTENTION_KNOB_few_rows] = FV_KNOB_NUMBER(choice, few_rows, -1, MOST_ROWS, 0, -1, 4, 8, 16, 32, 64),
    [FV_ATTENTION_KNOB_copy_rows] = FV_KNOB_NUMBER(choice, copy_rows, 1, MOST_COPY, 0, 1, 64, 192, 512, MOST_COPY),
    [FV_ATTENTION_KNOB_amx_rows] = FV_KNOB_NUMBER(choice, amx_rows, 1, MOST_ROWS, 0, 1, 4, 8, 16, MOST_ROWS),
    [FV_ATTENTION_KNOB_stream_rows] = FV_KNOB_NUMBER(choice, stream_rows, -1, MOST_ROWS, 0, -1, 1, 2, 4, 8, 16),
    [FV_ATTENTION_KNOB_threads] =
        FV_KNOB_NUMBER(choice, threads, 1, MOST_ROWS, FV_TUNING_THREADED, 1, 2, 4, 8, 16, 32, 64),
    [FV_ATTENTION_KNOB_cache_scale] = FV_KNOB_CACHE_SCALE(choice),
};
_Static_assert((int)FV_ATTENTION_KNOBS <= (int)FV_TUNING_KNOBS, "room for knobs");

const fv_tuning_operation fv_tuning_attention = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, many_keys, knobs},
                          fv_tuning_attention_few = {FV_ATTENTION_KEYS, FV_ATTENTION_KNOBS, few_keys, knobs};
