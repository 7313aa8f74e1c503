/* Values copied as words of two bfloat16 for units that multiply tiles (source.h), in bf16_tile's arithmetic. */
#include "attention/sources/copied.h"

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->v_dtype == FOVEA_DTYPE_BF16 ? fv_sources_tiles(p) : NULL;
}

static bool begin(fv_values *v, fv_range keys) {
    return v->rows >= v->plan->choice->amx_rows && fv_copied_words_begin(v, keys);
}

static void next(const fv_values *v, int64_t column, int64_t first, int64_t end, fv_values_step *step) {
    *step = fv_copied_step(v, column, first, end, 2, FV_FORMAT_bf16x2, v->plan->v[FV_VALUES_tiles]);
}

const fv_values_source fv_values_tiles = {.name = "tiles",
                                          .id = FV_VALUES_tiles,
                                          .words = true,
                                          .finite = true,
                                          .serves = serves,
                                          .begin = begin,
                                          .open = fv_copied_words_open,
                                          .next = next};
