/* Rows of tuning files for linear maps (tuning/tuning.h): by which sizes they are found, and which choices they
 * make. */
#ifndef FV_LINEAR_KNOBS_H
#define FV_LINEAR_KNOBS_H

#include "tuning/tuning.h"

/* The most rows for which reading weights bounds a map. They are a separate operation, measured with weights that are
 * in no cache. */
enum { FV_LINEAR_FEW_ROWS = 8 };

enum { FV_LINEAR_KEY_in, FV_LINEAR_KEY_out, FV_LINEAR_KEY_rows, FV_LINEAR_KEYS };

/* fv_linear_choice is the same in another form (fv_tuning_to_choice(), fv_tuning_of_choice()). */
enum {
    FV_LINEAR_KNOB_gemm,
    FV_LINEAR_KNOB_k_block,
    FV_LINEAR_KNOB_row_block,
    FV_LINEAR_KNOB_chunk,
    FV_LINEAR_KNOB_items,
    FV_LINEAR_KNOB_split_rows,
    FV_LINEAR_KNOB_few_rows,
    FV_LINEAR_KNOB_integers,
    FV_LINEAR_KNOB_pair_rows,
    FV_LINEAR_KNOB_widened,
    FV_LINEAR_KNOB_prefetch,
    FV_LINEAR_KNOB_ahead,
    FV_LINEAR_KNOB_gather,
    FV_LINEAR_KNOB_cache_scale,
    FV_LINEAR_KNOBS
};

/* The operation of a map with packed weights of that type and that many rows, and its keys. */
fv_tuning_op fv_linear_tuning_keys(fovea_dtype dtype, int64_t rows, int64_t in, int64_t out,
                                   int64_t key[FV_TUNING_KEYS]);

#endif
