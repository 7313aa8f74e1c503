/* Drawing tokens: by a seed, from the most likely ones, as often as their probability says; digests of rows. */
#include "sample.h"

#include "receipt.h"
#include "test.h"

#include <math.h>

enum { WORDS = 40, DRAWS = 20000 };

static void fill(float logits[WORDS], rng *r) {
    for (int i = 0; i < WORDS; i++)
        logits[i] = 2.0f * rng_normal(r);
}

static void test_greedy(const float *logits) {
    sampler s;
    uint64_t state = 1;
    test_check(sampler_begin(&s, &(sample_rules){.penalty = 1.0, .top_p = 0.5}, WORDS) == 0, "no memory");
    const int32_t best = sample(&s, logits, NULL, 0, &state);
    for (int i = 0; i < WORDS; i++)
        test_check(logits[i] <= logits[best], "word %d is likelier than the one that was taken", i);
    static const sample_rules only_best[] = {{.penalty = 1.0, .temperature = 1.0, .top_p = 0.0},
                                             {.penalty = 1.0, .temperature = 1.0, .top_p = 1.0, .top_k = 1},
                                             {.penalty = 1.0, .temperature = 1.0, .top_p = 1.0, .min_p = 1.0}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 50; i++) {
            s.rules = only_best[k];
            test_check(sample(&s, logits, NULL, 0, &state) == best, "rules %d draw another than the most likely", k);
        }
    sampler_end(&s);
    const float equal[3] = {1.0f, 1.0f, 1.0f};
    test_check(sample_greedy(equal, 3) == 0, "of equals, the first is not taken");
}

/* Tokens that were seen lose as much as the penalty says, however often they were. */
static void test_penalty(void) {
    static const float logits[] = {4.0f, 3.0f, -1.0f, -1.5f};
    static const int32_t seen[] = {0, 0, 2, 0};
    static const struct {
        double penalty;
        int count, want;
    } steps[] = {{1.0, 4, 0}, {1.3, 4, 0}, {1.4, 4, 1}, {1.4, 0, 0}, {0.5, 4, 0}};
    const float negative[] = {-1.0f, -1.5f};
    sampler s;
    uint64_t state = 1;
    test_check(sampler_begin(&s, &(sample_rules){.penalty = 1.0}, 4) == 0, "no memory");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        s.rules.penalty = steps[i].penalty;
        const int got = sample(&s, logits, seen, steps[i].count, &state);
        test_check(got == steps[i].want, "penalty %g: word %d, not %d", steps[i].penalty, got, steps[i].want);
    }
    s.rules.penalty = 1.6;
    s.words = 2;
    test_check(sample(&s, negative, seen, 1, &state) == 1, "a logit below 0 is not multiplied");
    sampler_end(&s);
}

/* The first ones of equal tokens are candidates, and min_p itself is enough. */
static void test_equals(void) {
    static const float equal[] = {1.0f, 1.0f, 1.0f, 1.0f};
    sampler s;
    uint64_t state = 1;
    int drawn[2][4] = {{0}};
    test_check(sampler_begin(&s, &(sample_rules){.penalty = 1.0, .temperature = 1.0, .top_p = 1.0}, 4) == 0,
               "no memory");
    for (int i = 0; i < 400; i++) {
        s.rules.top_k = i < 200 ? 2 : 0;
        s.rules.min_p = i < 200 ? 0.0 : 1.0;
        drawn[i / 200][sample(&s, equal, NULL, 0, &state)]++;
    }
    test_check(drawn[0][0] > 0 && drawn[0][1] > 0 && drawn[0][2] == 0 && drawn[0][3] == 0, "others than the first two");
    for (int i = 0; i < 4; i++)
        test_check(drawn[1][i] > 0, "min_p 1 leaves out token %d, as likely as the first", i);
    sampler_end(&s);
}

/* Many words, some equally likely: the likeliest are drawn, the first of equals before the others. */
static void test_order(rng *r) {
    enum { MANY = 3000 };
    static float logits[MANY];
    sampler s;
    uint64_t state = 1;
    for (int i = 0; i < MANY; i++) /* whole differences, and of a last bit */
        logits[i] = (float)rng_below(r, 13) + 0x1p-17f * (float)rng_below(r, 8);
    test_check(sampler_begin(&s, &(sample_rules){.penalty = 1.0, .temperature = 4.0, .top_p = 1.0}, MANY) == 0,
               "no memory");
    for (s.rules.top_k = 1; s.rules.top_k <= MANY; s.rules.top_k = 3 * s.rules.top_k)
        for (int i = 0; i < 300; i++) {
            const int32_t drawn = sample(&s, logits, NULL, 0, &state);
            int before = 0;
            for (int k = 0; k < MANY; k++)
                before += logits[k] > logits[drawn] || (logits[k] == logits[drawn] && k < drawn);
            test_check(before < s.rules.top_k, "of the first %d, number %d is drawn", (int)s.rules.top_k, before);
        }
    sampler_end(&s);
}

/* As docs/receipts.md has them, of rows longer than what is hashed at once, and of more rows than a block has. */
static void test_digests(void) {
    enum { LONG = 9000, ROWS = RECEIPT_EVERY + 3 };
    static float row[LONG];
    receipt_rows rows = {0};
    sha256_digest want, got;
    for (int i = 0; i < LONG; i++)
        row[i] = (float)(i % 999) - 500.0f;
    test_check(sha256_of(row, sizeof row, &want) == 0 && receipt_row_digest(row, LONG, &got) == 0 &&
                   sha256_equal(&want, &got),
               "another digest of a row");
    row[500] = -0.0f; /* was +0 */
    test_check(receipt_row_digest(row, LONG, &got) == 0 && sha256_equal(&want, &got), "-0 does not count as +0");
    for (int i = 0; i < ROWS; i++)
        test_check(receipt_row_digest(row + i, 10, &got) == 0 && receipt_rows_add(&rows, &got, i) == 0, "no memory");
    test_check(receipt_rows_end(&rows) == 0 && rows.count == ROWS && rows.blocks == 2, "%d blocks", (int)rows.blocks);
    for (int i = 0; i < 3; i++) {
        const int first = i == 1 ? RECEIPT_EVERY : 0, end = i == 0 ? RECEIPT_EVERY : ROWS;
        test_check(sha256_of(rows.full + first, (size_t)(end - first) * sizeof want, &want) == 0 &&
                       sha256_equal(&want, i < 2 ? &rows.block[i] : &rows.all),
                   "another digest of rows from %d to %d", first, end);
    }
    receipt_rows_free(&rows);
}

static void test_seeds(const float *logits) {
    const sample_rules rules = {.penalty = 1.0, .temperature = 1.3, .top_p = 0.95};
    uint64_t a = 7, b = 7, c = 8;
    sampler s;
    int others = 0;
    test_check(sampler_begin(&s, &rules, WORDS) == 0, "no memory");
    for (int i = 0; i < 200; i++) {
        const int32_t drawn = sample(&s, logits, NULL, 0, &a);
        test_check(drawn == sample(&s, logits, NULL, 0, &b), "one seed draws two things");
        others += drawn != sample(&s, logits, NULL, 0, &c);
    }
    test_check(others > 50, "another seed draws the same but for %d of 200", others);
    sampler_end(&s);
}

/* Is word i one of those that are drawn? By what is likelier, and how likely that is among the first top_k. */
static bool kept(const double *p, int i, const sample_rules *r) {
    double before = 0.0, all = 0.0, most = 0.0;
    int rank = 0;
    for (int j = 0; j < WORDS; j++) {
        int above = 0;
        for (int k = 0; k < WORDS; k++)
            above += p[k] > p[j];
        most = p[j] > most ? p[j] : most;
        all += r->top_k == 0 || above < r->top_k ? p[j] : 0.0;
        before += p[j] > p[i] ? p[j] : 0.0;
        rank += p[j] > p[i];
    }
    return before < r->top_p * all && (r->top_k == 0 || rank < r->top_k) && (rank == 0 || p[i] >= r->min_p * most);
}

/* Counts against probabilities, within five standard deviations; and none beyond the rules. */
static void test_shares(const float *logits, double temperature, int64_t top_k, double top_p, double min_p) {
    const sample_rules rules = {
        .penalty = 1.0, .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p};
    sampler s;
    uint64_t state = 3;
    int count[WORDS] = {0}, cut = 0;
    double p[WORDS], all = 0.0;
    test_check(sampler_begin(&s, &rules, WORDS) == 0, "no memory");
    for (int i = 0; i < DRAWS; i++)
        count[sample(&s, logits, NULL, 0, &state)]++;
    for (int i = 0; i < WORDS; i++)
        p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < WORDS; i++)
        all += kept(p, i, &rules) ? p[i] : 0.0;
    for (int i = 0; i < WORDS; i++) {
        const double share = kept(p, i, &rules) ? p[i] / all : 0.0, due = share * DRAWS;
        cut += share == 0.0;
        test_check(fabs(count[i] - due) <= 5 * sqrt(due * (1 - share)) + 0.5,
                   "word %d is drawn %d times, not about %.0f", i, count[i], due);
    }
    test_check((cut > 0) == (top_k > 0 || top_p < 1.0 || min_p > 0.0), "%d words are never drawn", cut);
    sampler_end(&s);
}

int main(int argc, char **argv) {
    float logits[WORDS];
    test_begin(argc, argv, "sample", NULL);
    rng r = rng_stream(test_seed(), "sample");
    fill(logits, &r);
    test_greedy(logits);
    test_penalty();
    test_equals();
    test_order(&r);
    test_digests();
    test_seeds(logits);
    test_shares(logits, 1.0, 0, 1.0, 0.0);
    test_shares(logits, 0.7, 0, 0.9, 0.0);
    test_shares(logits, 2.0, 0, 0.5, 0.0);
    test_shares(logits, 1.5, 7, 1.0, 0.0);
    test_shares(logits, 1.5, 0, 1.0, 0.2);
    test_shares(logits, 1.5, 12, 0.8, 0.05);
    return test_end();
}
