/* The next token from logits: the most likely one, or one drawn from the most likely. */
#ifndef GENERATE_SAMPLE_H
#define GENERATE_SAMPLE_H

#include <stdint.h>

/* One thread at a time. The same seed draws the same tokens from the same logits, on every machine. */
typedef struct sampler {
    double temperature; /* divides logits; 0: the most likely token, the first of equals */
    double top_p;       /* tokens are drawn from the most likely ones that have so much of the probability together */
    uint64_t state;     /* the seed, to begin with */
    float *weights;     /* [words], by sampler_begin() */
    int32_t *order;     /* [words] */
} sampler;

/* Room for so many words; 0, or -1 without memory. */
int sampler_begin(sampler *s, int64_t words);
void sampler_end(sampler *s);

int32_t sample(sampler *s, const float *logits, int64_t words);

/* The index of the largest. */
int32_t sample_greedy(const float *logits, int64_t words);

#endif
