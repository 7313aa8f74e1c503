/* sample.h. */
#include "sample.h"

#include "splitmix.h"

#include <fovea/fovea.h>

#include <stdlib.h>
#include <string.h>

int sampler_begin(sampler *s, const sample_rules *rules, int64_t words) {
    s->rules = *rules;
    s->words = words;
    s->scores = malloc((size_t)words * sizeof *s->scores);
    s->weights = malloc((size_t)words * sizeof *s->weights);
    s->order = malloc((size_t)words * sizeof *s->order);
    return s->scores != NULL && s->weights != NULL && s->order != NULL ? 0 : -1;
}

void sampler_end(sampler *s) {
    free(s->scores);
    free(s->weights);
    free(s->order);
}

int32_t sample_greedy(const float *logits, int64_t words) {
    int64_t best = 0;
    for (int64_t i = 1; i < words; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* [0, 1). */
static double draw(uint64_t *state) { return (double)(splitmix64(state) >> 11) * 0x1p-53; }

static const float *sorted; /* what by_weight() compares */

static int by_weight(const void *a, const void *b) {
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sorted[i] != sorted[j])
        return sorted[i] > sorted[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* The logits with the penalty of tokens that were seen, once each. */
static void penalise(sampler *s, const float *logits, const int32_t *seen, int64_t count) {
    const float by = (float)s->rules.penalty;
    memcpy(s->scores, logits, (size_t)s->words * sizeof *s->scores);
    for (int64_t i = 0; by != 1.0f && i < count; i++) {
        const float x = logits[seen[i]];
        s->scores[seen[i]] = x > 0.0f ? x / by : x * by;
    }
}

/* How many of the candidates, the likeliest first, are left. */
static int64_t cut(const sampler *s, int64_t count, double *sum) {
    const sample_rules *r = &s->rules;
    double all = 0.0;
    int64_t kept = 0;
    if (r->top_k > 0 && r->top_k < count)
        count = r->top_k;
    for (int64_t i = 0; i < count; i++)
        all += (double)s->weights[s->order[i]];
    *sum = 0.0;
    while (kept < count && (kept == 0 || (*sum < r->top_p * all && (double)s->weights[s->order[kept]] >= r->min_p)))
        *sum += (double)s->weights[s->order[kept++]];
    return kept;
}

int32_t sample(sampler *s, const float *logits, const int32_t *seen, int64_t seen_count, uint64_t *state) {
    const int64_t words = s->words;
    penalise(s, logits, seen, seen_count);
    const int32_t best = sample_greedy(s->scores, words);
    if (!(s->rules.temperature > 0))
        return best;
    for (int64_t i = 0; i < words; i++)
        s->weights[i] = (float)((double)(s->scores[i] - s->scores[best]) / s->rules.temperature);
    if (fovea_exp_f32(words, s->weights, s->weights) != FOVEA_OK) /* the library's own: the same bits everywhere */
        return best;
    double sum;
    int64_t count = 0;
    for (int64_t i = 0; i < words; i++) /* one of less than a millionth of the best is never drawn */
        if (s->weights[i] > 1e-6f)
            s->order[count++] = (int32_t)i;
    sorted = s->weights;
    qsort(s->order, (size_t)count, sizeof *s->order, by_weight);
    const int64_t kept = cut(s, count, &sum);
    double left = draw(state) * sum;
    for (int64_t i = 0; i < kept; i++) {
        left -= (double)s->weights[s->order[i]];
        if (left < 0)
            return s->order[i];
    }
    return kept > 0 ? s->order[kept - 1] : best;
}
