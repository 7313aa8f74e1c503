/* sample.h. */
#include "sample.h"

#include "splitmix.h"

#include <fovea/fovea.h>

#include <stdlib.h>
#include <string.h>

/* A word that may be drawn. */
typedef struct sample_candidate {
    float weight;
    int32_t word;
} candidate;

int sampler_begin(sampler *s, const sample_rules *rules, int64_t words) {
    s->rules = *rules;
    s->words = words;
    s->scores = malloc((size_t)words * sizeof *s->scores);
    s->weights = malloc((size_t)words * sizeof *s->weights);
    s->candidates = malloc((size_t)words * sizeof *s->candidates);
    s->other = malloc((size_t)words * sizeof *s->other);
    return s->scores != NULL && s->weights != NULL && s->candidates != NULL && s->other != NULL ? 0 : -1;
}

void sampler_end(sampler *s) {
    free(s->scores);
    free(s->weights);
    free(s->candidates);
    free(s->other);
}

/* Maxima of LANES words apart do not wait for each other. */
int32_t sample_greedy(const float *logits, int64_t words) {
    enum { LANES = 16 };
    float largest[LANES], most = logits[0];
    int64_t at = 0, best = 0;
    for (int k = 0; k < LANES; k++)
        largest[k] = logits[0];
    for (; at + LANES <= words; at += LANES)
        for (int k = 0; k < LANES; k++)
            largest[k] = logits[at + k] > largest[k] ? logits[at + k] : largest[k];
    for (int k = 0; k < LANES; k++)
        most = largest[k] > most ? largest[k] : most;
    for (; at < words; at++)
        most = logits[at] > most ? logits[at] : most;
    while (best < words && logits[best] != most)
        best++;
    return best < words ? (int32_t)best : 0; /* the first is no number */
}

/* [0, 1). */
static double draw(uint64_t *state) { return (double)(splitmix64(state) >> 11) * 0x1p-53; }

/* Ascends as weights of 1 down to 1e-6 descend, and is less than 2^30. */
static uint32_t order_key(const candidate *c) {
    uint32_t bits;
    memcpy(&bits, &c->weight, sizeof bits);
    return 0x3f800000 - bits; /* of 1.0f */
}

/* By descending weight, then by ascending word: words ascend already, and a radix sort leaves equals in their order. */
static void order(sampler *s, int64_t count) {
    enum { BITS = 10, DIGITS = 1 << BITS };
    for (int shift = 0; shift < 3 * BITS; shift += BITS) {
        const candidate *from = s->candidates;
        int64_t place[DIGITS + 1] = {0};
        for (int64_t i = 0; i < count; i++)
            place[(order_key(&from[i]) >> shift) % DIGITS + 1]++;
        for (int digit = 0; digit < DIGITS; digit++)
            place[digit + 1] += place[digit];
        for (int64_t i = 0; i < count; i++)
            s->other[place[(order_key(&from[i]) >> shift) % DIGITS]++] = from[i];
        s->candidates = s->other;
        s->other = (candidate *)from;
    }
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
    const candidate *c = s->candidates;
    double all = 0.0;
    int64_t kept = 0;
    if (r->top_k > 0 && r->top_k < count)
        count = r->top_k;
    for (int64_t i = 0; i < count; i++)
        all += (double)c[i].weight;
    *sum = 0.0;
    while (kept < count && (kept == 0 || (*sum < r->top_p * all && (double)c[kept].weight >= r->min_p)))
        *sum += (double)c[kept++].weight;
    return kept;
}

/* Words whose weight is more than a millionth of the best one's. exp is asked only about those that may be, as exp(-15)
 * is less; it is the library's own, with the same bits everywhere. */
static int64_t find_candidates(sampler *s, int32_t best) {
    const float least = (float)(-15.0 * s->rules.temperature);
    int64_t near = 0, count = 0;
    for (int64_t i = 0; i < s->words; i++) {
        const float x = s->scores[i] - s->scores[best];
        if (x >= least) {
            s->weights[near] = (float)((double)x / s->rules.temperature);
            s->candidates[near++].word = (int32_t)i;
        }
    }
    if (fovea_exp_f32(near, s->weights, s->weights) != FOVEA_OK)
        return 0;
    for (int64_t i = 0; i < near; i++)
        if (s->weights[i] > 1e-6f)
            s->candidates[count++] = (candidate){s->weights[i], s->candidates[i].word};
    return count;
}

int32_t sample(sampler *s, const float *logits, const int32_t *seen, int64_t seen_count, uint64_t *state) {
    const int64_t words = s->words;
    penalise(s, logits, seen, seen_count);
    const int32_t best = sample_greedy(s->scores, words);
    if (!(s->rules.temperature > 0))
        return best;
    const int64_t count = find_candidates(s, best);
    double sum;
    order(s, count);
    const int64_t kept = cut(s, count, &sum);
    double left = draw(state) * sum;
    for (int64_t i = 0; i < kept; i++) {
        left -= (double)s->candidates[i].weight;
        if (left < 0)
            return s->candidates[i].word;
    }
    return kept > 0 ? s->candidates[kept - 1].word : best;
}
