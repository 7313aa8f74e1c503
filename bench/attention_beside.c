/* Further outputs of a timed attention (fovea/outputs.h): scores of one kind, or statistics. Tests compare them with
 * the weights; here only out is checked. */
#include <stdlib.h>

#include "attention_bench.h"

const char *const attention_beside_words[] = {"nothing", "raw",      "capped", "biased",
                                              "weights", "key_sums", "rows",   NULL};

enum { TOP = 8 };

static const char *make_output(attention *self, fovea_tensor *t, fovea_dtype dtype, int64_t tokens, int64_t columns) {
    const int64_t batch = self->desc.packed ? 1 : self->desc.batch, heads = self->desc.q_heads;
    const int64_t size = dtype == FOVEA_DTYPE_I64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(float);
    *t = fovea_tensor_bhtd(bench_alloc(batch * heads * tokens * columns * size), dtype, batch, heads, tokens, columns);
    return t->data ? NULL : "no memory";
}

const char *attention_make_beside(attention *self) {
    const int64_t queries = self->args.q.shape[2], keys = self->args.k.shape[2];
    fovea_attention_scores *scores = &self->scores;
    fovea_attention_summary *summary = &self->summary;
    const char *error = NULL;
    fovea_attention_scores_init(scores);
    fovea_attention_summary_init(summary);
    if (self->beside == BESIDE_NOTHING)
        return NULL;
    if (self->beside < BESIDE_KEY_SUMS) {
        scores->kind = (fovea_score_kind)(self->beside - BESIDE_RAW);
        self->args.scores = scores;
        return make_output(self, &scores->out, FOVEA_DTYPE_F32, queries, keys);
    }
    self->args.summary = summary;
    if (self->beside == BESIDE_KEY_SUMS)
        return make_output(self, &summary->key_sums, FOVEA_DTYPE_F32, 1, keys);
    error = make_output(self, &summary->entropy, FOVEA_DTYPE_F32, queries, 1);
    if (error == NULL)
        error = make_output(self, &summary->max_weight, FOVEA_DTYPE_F32, queries, 1);
    if (error == NULL)
        error = make_output(self, &summary->top_keys, FOVEA_DTYPE_I64, queries, TOP);
    return error ? error : make_output(self, &summary->top_weights, FOVEA_DTYPE_F32, queries, TOP);
}

void attention_free_beside(attention *self) {
    fovea_tensor *const all[] = {&self->scores.out,         &self->summary.key_sums, &self->summary.entropy,
                                 &self->summary.max_weight, &self->summary.top_keys, &self->summary.top_weights};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->data);
        all[i]->data = NULL;
    }
}
