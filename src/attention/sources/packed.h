/* Packed panels of keys: shared by the sources that pack (source.h). A block of one tile packs a panel just before its
 * product, all to one place; else all panels of a segment are packed when it opens. */
#ifndef FV_ATTENTION_PACKED_H
#define FV_ATTENTION_PACKED_H

#include "attention/sources/source.h"

#include <math.h>

/* Keys of the panel that begins at a key that are packed: what any row sees, from a multiple of FV_LANES on. */
static inline fv_range fv_packed_range(const fv_keys *k, int64_t panel) {
    return (fv_range){fv_max(panel, fv_round_down(k->range.begin, FV_LANES)),
                      fv_min(panel + k->plan->panel, k->range.end)};
}

/* How many interleaved keys of [key, end) come next, in a panel with room for `room`: a group, or half of one. */
static inline int64_t fv_packed_group(int64_t key, int64_t end, int64_t room) {
    return key % FV_KEY_GROUP == 0 && end - key > FV_LANES && room >= FV_KEY_GROUP ? FV_KEY_GROUP : FV_LANES;
}

/* Where the norms of keys go; NULL: they are not asked for. */
static inline float *fv_packed_norm(fv_keys *k) { return k->norm < INFINITY ? &k->norm : NULL; }

/* Sets the step that begins with a column of a panel; words: of a key. */
static inline void fv_packed_step(const fv_keys *k, int64_t begin, int64_t end, int64_t words, fv_format format,
                                  fv_query_form form, const fv_kernel *product, fv_keys_step *step) {
    const int64_t panel = k->plan->panel, at = fv_round_down(begin, panel);
    step->begin = begin;
    step->end = fv_round_up(fv_min(at + panel, end), FV_LANES);
    step->keys = (fv_operand){.data = k->packed + (k->one_tile ? 0 : at * words) + (begin - at),
                              .columns = step->end - begin,
                              .steps = k->plan->desc->head_dim,
                              .row = panel,
                              .format = format};
    step->product = product;
    step->form = form;
    step->most_rows = INT64_MAX;
    step->factor = 1.0f;
    step->skips_lines = false;
}

/* The words of two elements of keys_words.c, by the product of a source. */
bool fv_packed_words_begin(fv_keys *keys);
bool fv_packed_words_open(fv_keys *keys);
bool fv_packed_words_next(fv_keys *keys, int64_t begin, int64_t end, const fv_kernel *product, fv_keys_step *step);

/* Do scaled queries and scores stay normal numbers as words of the plan's type? */
bool fv_packed_words_scale(const fv_sources *plan);

#endif
