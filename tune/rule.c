/* A rule for other classes (search.h): sizes for caches of another size than the system reports.
 *
 * If the system is wrong about the caches, it is so for all classes, also for those where that costs less than is
 * stored of a class alone, or nothing on the shape of its search (defaults for half the caches: 1.5 to 2.7 % of most
 * attentions on AVX2). So where classes took rules, with kernels or sizes of their own or without, the rule alone is
 * proved, as long as there is time: for those classes, and for those that kept the default. These take it if it is
 * known to be at most 1 % slower on each shape of the proof and is faster on average by more than 1 % and three
 * standard errors; but only as many, the fastest first, that all for which it passed are 2 % faster on average. */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t caches_of(const tune_result *r) {
    return r->verdict == VERDICT_tuned ? r->choice.knob[FV_ATTENTION_KNOB_caches].number : 0;
}

bool tune_has_rule(const tune_result *results, int count) {
    for (int i = 0; i < count; i++)
        if (caches_of(&results[i]))
            return true;
    return false;
}

static double distance(int64_t percent) { return fabs(log((double)percent / 100)); }

/* The rule that most classes took, of several the one nearest to none, and its neighbour between 25 and 400 %: nearer
 * to none, if there is one. Returns how many. */
static int list_rules(const tune_result *results, int count, tune_standing rules[2]) {
    int64_t rule = 0;
    int most = 0;
    for (int i = 0; i < count; i++) {
        const int64_t one = caches_of(&results[i]);
        int takers = 0;
        for (int j = 0; j < count && one; j++)
            takers += caches_of(&results[j]) == one;
        if (takers > most || (takers == most && takers && distance(one) < distance(rule))) {
            rule = one;
            most = takers;
        }
    }
    if (!rule)
        return 0;
    const int64_t larger = rule < 400 ? 2 * rule : rule / 2, smaller = rule > 25 ? rule / 2 : 2 * rule;
    memset(rules, 0, 2 * sizeof *rules);
    rules[0].choice.knob[FV_ATTENTION_KNOB_caches].number = rule;
    rules[1].choice.knob[FV_ATTENTION_KNOB_caches].number = rule > 100 ? larger : smaller;
    return 2;
}

/* A class for which the rule is proved. */
typedef struct trial {
    int index;
    double seconds; /* that its proof took */
    tune_result result;
} trial;

static double gain_of(const trial *t) {
    return t->result.verdict == VERDICT_tuned ? log(t->result.gain.median) : -INFINITY;
}

static int by_cost(const void *a, const void *b) {
    const trial *x = a, *y = b;
    return (x->result.seconds > y->result.seconds) - (x->result.seconds < y->result.seconds);
}

static int by_gain(const void *a, const void *b) { return (gain_of(b) > gain_of(a)) - (gain_of(b) < gain_of(a)); }

/* Stores what passed, the fastest first, as long as all that passed, those with a choice of their own among them, are
 * fast enough on average. */
static void take(trial *trials, int n, tune_reporter *reporter, void *arg, tune_result *results) {
    const double least_of_all = log(1.02);
    double sum = 0;
    int takers = 0;
    qsort(trials, (size_t)n, sizeof *trials, by_gain);
    for (int k = 0; k < n && sum + gain_of(&trials[k]) >= (takers + 1) * least_of_all; k++) {
        const int i = trials[k].index;
        sum += gain_of(&trials[k]);
        takers++;
        if (results[i].verdict != VERDICT_default)
            continue;
        results[i] = trials[k].result;
        reporter(arg, i, NULL, false, 0);
        reporter(arg, i, &results[i], true, trials[k].seconds);
    }
}

void tune_spread_rule(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double until,
                      tune_watcher *watcher, tune_reporter *reporter, void *arg, tune_result *results) {
    tune_standing rules[2];
    const int known = list_rules(results, count, rules);
    trial *trials = calloc((size_t)(count > 0 ? count : 1), sizeof *trials);
    int n = 0;
    for (int i = 0; i < count; i++) {
        results[i].rule_open = results[i].verdict == VERDICT_default && (known || tune_stopped);
        if (trials && known && (results[i].rule_open || caches_of(&results[i]))) {
            trials[n] = (trial){.index = i, .result = results[i]};
            trials[n++].result.verdict = VERDICT_default;
        }
    }
    if (n > 0)
        qsort(trials, (size_t)n, sizeof *trials, by_cost);
    for (int k = 0; k < n && !tune_stopped && tune_now() < until; k++) {
        const int i = trials[k].index;
        const double begin = tune_now();
        tune_search_state s = tune_search_begin(ctx, effort, watcher, arg, &trials[k].result);
        s.least = log(1.01);
        trials[k].result.rule_open = false;
        reporter(arg, i, NULL, false, 0);
        tune_prove(&s, &classes[i], rules, known, begin + (until - begin) / (n - k));
        trials[k].seconds = tune_now() - begin;
        results[i].rule_open = results[i].rule_open && tune_stopped;
        reporter(arg, i, &results[i], false, trials[k].seconds);
    }
    if (trials)
        take(trials, n, reporter, arg, results);
    free(trials);
}
