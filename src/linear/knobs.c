/* Linear maps and tuning files (tuning.h). */
#include "linear/knobs.h"

#include "linear/heuristics.h"

/* Largest blocks: a row may cost memory, but not much. */
enum { MOST_ROWS = 4096, MOST_CHANNELS = 1 << 20, MOST_WIDENED = 4096, MOST_ITEMS = 64, MOST_AHEAD = 1 << 20 };
enum { AROUND = FV_TUNING_EIGHTHS | FV_TUNING_SIZE };

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
static const char *product_name(int64_t value) {
    const fv_kernel *product = fv_linear_product(value);
    return product ? product->name : NULL;
}
static const char *gather_name(int64_t value) {
    return value == FV_LINEAR_GATHER_NO ? "no" : value == FV_LINEAR_GATHER_YES ? "yes" : NULL;
}

typedef fv_linear_choice choice;
static const fv_tuning_knob knobs[] = {
    [FV_LINEAR_KNOB_gemm] = FV_KNOB_KERNEL(choice, gemm),
    [FV_LINEAR_KNOB_k_block] = FV_KNOB_NUMBER(choice, k_block, 1, MOST_CHANNELS, FV_TUNING_SIZE, 64, 96, 128, 192, 256,
                                              512, 1024, MOST_CHANNELS),
    [FV_LINEAR_KNOB_row_block] = FV_KNOB_NUMBER(choice, row_block, 1, MOST_ROWS, AROUND, 4, 16, 2),
    [FV_LINEAR_KNOB_chunk] = FV_KNOB_NUMBER(choice, chunk, 1, MOST_ROWS, AROUND, 4, 2, 16, 8 * MOST_ROWS),
    [FV_LINEAR_KNOB_items] = FV_KNOB_NUMBER(choice, items, 1, MOST_ITEMS, FV_TUNING_THREADED, 1, 2, 8, 16),
    [FV_LINEAR_KNOB_split_rows] =
        FV_KNOB_NUMBER(choice, split_rows, 1, INT64_MAX, FV_TUNING_THREADED, 16, 32, 128, INT32_MAX),
    [FV_LINEAR_KNOB_few_rows] = FV_KNOB_NUMBER(choice, few_rows, -1, INT64_MAX, 0, -1, INT32_MAX),
    [FV_LINEAR_KNOB_integers] = FV_KNOB_NAME(choice, integers, product_name),
    [FV_LINEAR_KNOB_pair_rows] = FV_KNOB_NUMBER(choice, pair_rows, -1, INT64_MAX, 0, -1, 1),
    [FV_LINEAR_KNOB_widened] = FV_KNOB_NUMBER(choice, widened, 1, MOST_WIDENED, FV_TUNING_EIGHTHS, 4, 16, 2),
    [FV_LINEAR_KNOB_prefetch] = FV_KNOB_NAME(choice, prefetch, prefetch_name),
    [FV_LINEAR_KNOB_ahead] = FV_KNOB_NUMBER(choice, ahead, -1, MOST_AHEAD, 0, -1, 1024, 2048, 8192, 16384),
    [FV_LINEAR_KNOB_gather] = FV_KNOB_NAME(choice, gather, gather_name),
    [FV_LINEAR_KNOB_cache_scale] = FV_KNOB_CACHE_SCALE(choice),
};
_Static_assert((int)FV_LINEAR_KNOBS <= (int)FV_TUNING_KNOBS, "room for knobs");

const fv_tuning_operation fv_tuning_linear = {FV_LINEAR_KEYS, FV_LINEAR_KNOBS, many_keys, knobs},
                          fv_tuning_linear_few = {FV_LINEAR_KEYS, FV_LINEAR_KNOBS, few_keys, knobs};
