/* Results that arguments request in addition to the outputs (fovea/outputs.h). */
#ifndef FV_ATTENTION_ASKED_H
#define FV_ATTENTION_ASKED_H

#include "fovea/fovea.h"

#include <stdbool.h>

/* Any view of scores or weights? */
static inline bool fv_asked_views(const fovea_attention_args *a) {
    return a->weights.data || (a->scores && a->scores->out.data);
}

/* Statistics of rows? */
static inline bool fv_asked_rows(const fovea_attention_args *a) {
    const fovea_attention_summary *s = a->summary;
    return s && (s->entropy.data || s->max_weight.data || s->top_keys.data);
}

/* Sums of keys? */
static inline bool fv_asked_key_sums(const fovea_attention_args *a) { return a->summary && a->summary->key_sums.data; }

/* Does any of them need the lse of a block's rows? */
static inline bool fv_asked_needs_lse(const fovea_attention_args *a) {
    return a->weights.data || fv_asked_rows(a) || (a->scores && a->scores->kind == FOVEA_SCORES_WEIGHTS);
}

#endif
