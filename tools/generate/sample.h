/* The next token from logits: the most likely one, or one drawn from the most likely. */
#ifndef GENERATE_SAMPLE_H
#define GENERATE_SAMPLE_H

#include <stdint.h>

/* How tokens are drawn, in this order; each step sees what the former left. */
typedef struct sample_rules {
    double penalty;     /* > 0; 1: none. Of tokens already there logits above 0 are divided by it, others multiplied */
    double temperature; /* divides logits; 0: the most likely token, the first of equals */
    int64_t top_k;      /* candidates: this many of the most likely; 0: all */
    double top_p;       /* only the most likely that have so much of the probability together; 1: all */
    double min_p;       /* only those of at least so much of the most likely one's probability; 0: all */
} sample_rules;

/* One thread at a time. The same seed draws the same tokens from the same logits, on every machine. */
typedef struct sampler {
    sample_rules rules;
    int64_t words;
    float *scores, *weights; /* [words], by sampler_begin() */
    struct sample_candidate *candidates, *other; /* the second for sorting */
} sampler;

/* Room for that many words; 0, or -1 without memory. */
int sampler_begin(sampler *s, const sample_rules *rules, int64_t words);
void sampler_end(sampler *s);

/* seen: the tokens of prompt and answer. state: of draws, the seed to begin with. */
int32_t sample(sampler *s, const float *logits, const int32_t *seen, int64_t seen_count, uint64_t *state);

/* The index of the largest. */
int32_t sample_greedy(const float *logits, int64_t words);

#endif
