/* Linear maps and tuning files (tuning.h). */
#include "linear/tuning.h"

#include "linear/heuristics.h"

/* Largest blocks: a row may cost memory, but not much. */
enum { MOST_ROWS = 4096, MOST_CHANNELS = 1 << 20, MOST_WIDENED = 4096, MOST_ITEMS = 64 };

#define KEYS(least, most)                                                                                              \
    {                                                                                                                  \
        [FV_LINEAR_KEY_in] = {"in", {1, INT64_MAX}}, [FV_LINEAR_KEY_out] = {"out", {1, INT64_MAX}},                    \
        [FV_LINEAR_KEY_rows] = {"rows", {least, most}},                                                                \
    }
static const fv_tuning_key many_keys[] = KEYS(FV_LINEAR_FEW_ROWS + 1, INT64_MAX),
                           few_keys[] = KEYS(1, FV_LINEAR_FEW_ROWS);
_Static_assert((int)FV_LINEAR_KEYS <= (int)FV_TUNING_KEYS, "room for keys");

/* Names of values, in their order. */
static const char *prefetch_name(int64_t value) {
    return value == FV_LINEAR_PREFETCH_OWN ? "own" : value == FV_LINEAR_PREFETCH_NEXT ? "next" : NULL;
}
static const char *gather_name(int64_t value) {
    return value == FV_LINEAR_GATHER_NO ? "no" : value == FV_LINEAR_GATHER_YES ? "yes" : NULL;
}

#define FIELD(name) offsetof(fv_linear_choice, name)
static const fv_tuning_knob knobs[] = {
    [FV_LINEAR_KNOB_gemm] = {"gemm", FV_TUNING_KERNEL, FIELD(gemm)},
    [FV_LINEAR_KNOB_k_block] = {"k_block", FV_TUNING_NUMBER, FIELD(k_block), {1, MOST_CHANNELS}},
    [FV_LINEAR_KNOB_row_block] = {"row_block", FV_TUNING_NUMBER, FIELD(row_block), {1, MOST_ROWS}},
    [FV_LINEAR_KNOB_chunk] = {"chunk", FV_TUNING_NUMBER, FIELD(chunk), {1, MOST_ROWS}},
    [FV_LINEAR_KNOB_items] = {"items", FV_TUNING_NUMBER, FIELD(items), {1, MOST_ITEMS}},
    [FV_LINEAR_KNOB_split_rows] = {"split_rows", FV_TUNING_NUMBER, FIELD(split_rows), {1, INT64_MAX}},
    [FV_LINEAR_KNOB_few_rows] = {"few_rows", FV_TUNING_NUMBER, FIELD(few_rows), {-1, INT64_MAX}},
    [FV_LINEAR_KNOB_pair_rows] = {"pair_rows", FV_TUNING_NUMBER, FIELD(pair_rows), {-1, INT64_MAX}},
    [FV_LINEAR_KNOB_widened] = {"widened", FV_TUNING_NUMBER, FIELD(widened), {1, MOST_WIDENED}},
    [FV_LINEAR_KNOB_prefetch] = {"prefetch", FV_TUNING_NAME, FIELD(prefetch), .name_of = prefetch_name},
    [FV_LINEAR_KNOB_gather] = {"gather", FV_TUNING_NAME, FIELD(gather), .name_of = gather_name},
};
_Static_assert((int)FV_LINEAR_KNOBS <= (int)FV_TUNING_KNOBS, "room for knobs");

const fv_tuning_operation fv_tuning_linear = {FV_LINEAR_KEYS, FV_LINEAR_KNOBS, many_keys, knobs},
                          fv_tuning_linear_few = {FV_LINEAR_KEYS, FV_LINEAR_KNOBS, few_keys, knobs};
