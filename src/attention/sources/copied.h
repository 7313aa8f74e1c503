/* Copied panels of values: shared by the sources that copy (source.h). */
#ifndef FV_ATTENTION_COPIED_H
#define FV_ATTENTION_COPIED_H

#include "attention/sources/source.h"

/* Keys [begin, end) of a panel, words of per_word keys each. */
static inline fv_values_step fv_copied_step(const fv_values *v, int64_t column, int64_t begin, int64_t end,
                                            int64_t per_word, fv_format format, const fv_kernel *product) {
    const int64_t panel = v->plan->choice->value->nr;
    return (fv_values_step){
        .values = {.data = v->copied + (column * FV_SEGMENT + begin / per_word * per_word * panel) / per_word,
                   .columns = fv_min(panel, v->plan->desc->value_dim - column),
                   .steps = end - begin / per_word * per_word,
                   .row = panel,
                   .format = format},
        .begin = begin,
        .end = end,
        .product = product,
        .most_rows = INT64_MAX};
}

/* The words of two bfloat16 of values_words.c. */
bool fv_copied_words_begin(fv_values *values, fv_range keys);
bool fv_copied_words_open(fv_values *values);

#endif
