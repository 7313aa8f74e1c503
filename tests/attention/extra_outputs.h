/* Everything that a call can give besides its output, weights apart, for tests that look at memory alone. */
#ifndef FOVEA_TESTS_EXTRA_OUTPUTS_H
#define FOVEA_TESTS_EXTRA_OUTPUTS_H

#include "attention_case.h"

/* Scores and statistics of a call. */
typedef struct extra_outputs {
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    float *memory;
    int64_t floats;
} extra_outputs;

/* Asks for all of them, in memory of 7s that the caller frees. */
static inline void ask_for_all(extra_outputs *x, const fovea_attention_desc *d, fovea_attention_args *args) {
    enum { TOP = 3, OUTPUTS = 6 };
    fovea_tensor *const all[OUTPUTS] = {&x->summary.top_keys, &x->scores.out,         &x->summary.key_sums,
                                        &x->summary.entropy,  &x->summary.max_weight, &x->summary.top_weights};
    const int64_t rows[OUTPUTS] = {d->q_len, d->q_len, 1, d->q_len, d->q_len, d->q_len};
    const int64_t columns[OUTPUTS] = {TOP, d->kv_len, d->kv_len, 1, 1, TOP};
    fovea_attention_scores_init(&x->scores);
    fovea_attention_summary_init(&x->summary);
    x->floats = d->batch * d->q_heads * (d->q_len * (d->kv_len + 3 * TOP + 2) + d->kv_len);
    x->memory = must_alloc(x->floats, sizeof(float));
    float *at = x->memory;
    for (int i = 0; i < OUTPUTS; i++) {
        *all[i] = fovea_tensor_bhtd(at, i == 0 ? FOVEA_DTYPE_I64 : FOVEA_DTYPE_F32, d->batch, d->q_heads, rows[i],
                                    columns[i]);
        at += d->batch * d->q_heads * rows[i] * columns[i] * (i == 0 ? 2 : 1);
    }
    args->scores = &x->scores;
    args->summary = &x->summary;
    for (int64_t i = 0; i < x->floats; i++)
        x->memory[i] = 7;
}

#endif
