/* Drawing tokens: by a seed, from the most likely ones, as often as their probability says. */
#include "sample.h"

#include "test.h"

#include <math.h>

enum { WORDS = 40, DRAWS = 20000 };

static void fill(float logits[WORDS], rng *r) {
    for (int i = 0; i < WORDS; i++)
        logits[i] = 2.0f * rng_normal(r);
}

static void test_greedy(const float *logits) {
    sampler s = {.temperature = 0, .top_p = 0.5, .state = 1};
    test_check(sampler_begin(&s, WORDS) == 0, "no memory");
    const int32_t best = sample(&s, logits, WORDS);
    for (int i = 0; i < WORDS; i++)
        test_check(logits[i] <= logits[best], "word %d is likelier than the one that was taken", i);
    s.temperature = 1.0;
    s.top_p = 0.0;
    for (int i = 0; i < 50; i++)
        test_check(sample(&s, logits, WORDS) == best, "top-p of 0 draws another than the most likely");
    sampler_end(&s);
    const float equal[3] = {1.0f, 1.0f, 1.0f};
    test_check(sample_greedy(equal, 3) == 0, "of equals, the first is not taken");
}

static void test_seeds(const float *logits) {
    sampler a = {.temperature = 1.3, .top_p = 0.95, .state = 7}, b = a, c = a;
    c.state = 8;
    int others = 0;
    test_check(sampler_begin(&a, WORDS) == 0 && sampler_begin(&b, WORDS) == 0 && sampler_begin(&c, WORDS) == 0,
               "no memory");
    for (int i = 0; i < 200; i++) {
        const int32_t drawn = sample(&a, logits, WORDS);
        test_check(drawn == sample(&b, logits, WORDS), "one seed draws two things");
        others += drawn != sample(&c, logits, WORDS);
    }
    test_check(others > 50, "another seed draws the same but for %d of 200", others);
    sampler_end(&a);
    sampler_end(&b);
    sampler_end(&c);
}

/* Counts against probabilities, within five standard deviations; and none beyond top-p. */
static void test_shares(const float *logits, double temperature, double top_p) {
    sampler s = {.temperature = temperature, .top_p = top_p, .state = 3};
    int count[WORDS] = {0};
    double p[WORDS], all = 0.0, kept = 0.0;
    test_check(sampler_begin(&s, WORDS) == 0, "no memory");
    for (int i = 0; i < DRAWS; i++)
        count[sample(&s, logits, WORDS)]++;
    for (int i = 0; i < WORDS; i++)
        all += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < WORDS; i++) { /* what is likelier than word i has less than top_p, or i is not drawn */
        double before = 0.0;
        for (int j = 0; j < WORDS; j++)
            before += logits[j] > logits[i] ? exp((double)logits[j] / temperature) : 0.0;
        if (before >= top_p * all)
            p[i] = 0.0;
        kept += p[i];
    }
    for (int i = 0; i < WORDS; i++) {
        const double share = p[i] / kept, due = share * DRAWS;
        test_check(fabs(count[i] - due) <= 5 * sqrt(due * (1 - share)) + 0.5,
                   "word %d is drawn %d times, not about %.0f", i, count[i], due);
    }
    sampler_end(&s);
}

int main(int argc, char **argv) {
    float logits[WORDS];
    test_begin(argc, argv, "sample", NULL);
    rng r = rng_stream(test_seed(), "sample");
    fill(logits, &r);
    test_greedy(logits);
    test_seeds(logits);
    test_shares(logits, 1.0, 1.0);
    test_shares(logits, 0.7, 0.9);
    test_shares(logits, 2.0, 0.5);
    return test_end();
}
