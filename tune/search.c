/* The search for a class (tune.h).
 *
 * In stages, each over candidates that differ in one respect from the best so far (candidates.c). A stage is a
 * successive halving: some blocks for all, the better half goes on with twice the blocks, until two are left. What is
 * far behind the best falls out at once.
 *
 * What wins (and what won the first stage, should the rest have been luck) goes to the proof: other shapes of the
 * class, measured anew. Stored is what is known to be at most 1 % slower on each of them, and on average faster by more
 * than 2 % and than three standard errors of the default against itself.
 */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tune_verdicts[] = {
    [VERDICT_unseen] = "not enough time",        [VERDICT_default] = "default is best",
    [VERDICT_bound] = "default is at the bound", [VERDICT_tuned] = "faster choice",
    [VERDICT_noisy] = "too noisy to tell",       [VERDICT_large] = "more than memory allows"};

typedef struct effort_numbers {
    int first;  /* blocks of the first round of a stage */
    int noise;  /* of the default against itself, at first */
    int proof;  /* for each shape */
    int shapes; /* of the proof */
} effort_numbers;

static const effort_numbers efforts[] = {
    [EFFORT_quick] = {1, 5, 9, 2}, [EFFORT_normal] = {2, 8, 15, 3}, [EFFORT_thorough] = {4, 16, 31, 3}};

/* A share of the bound that ends a search: what may be left to gain is not much more than the least that is stored. */
static const double near_bound = 0.97;

/* What a choice may be slower than the default on a shape of its proof, as far as is known: log of a ratio of times. */
static const double no_slower = 0.01;

/* A standard error with which the last two of a stage are told from each other. */
static const double near_enough = 0.003;

int tune_proof_blocks(tune_effort effort) { return efforts[effort].proof; }

typedef struct search {
    tune_measurement m;
    tune_problem problem;
    const fovea_context *ctx;
    effort_numbers effort;
    double until;    /* of the search; the proof has its own time */
    bool noisy, cut; /* too few blocks to tell: as they had to be thrown away; as the time was over */
    tune_watcher *watcher;
    void *arg;
    tune_result *result;
} search;

/* There are too few blocks to tell: why? */
static void too_few(search *s, const tune_measurement *m) {
    if (m->thrown > m->kept)
        s->noisy = true;
    else
        s->cut = true;
}

enum { MANY = 32 }; /* candidates */

/* Halves until two are left. The fastest of them, if it is faster than the default, is *best from then on; the best so
 * far is among the candidates, as what a few blocks said of it may have been luck. */
static void run_stage(search *s, const char *what, const tune_choice *list, int count, double until, tune_choice *best,
                      double *best_ratio) {
    tune_candidate *all = calloc((size_t)(count ? count : 1), sizeof *all), *left[TUNE_CANDIDATES];
    int n = 0, made = 0;
    for (int i = 0; all && i < count; i++)
        if (tune_candidate_make(&s->m, &list[i], &all[made]))
            left[n++] = &all[made++];
    s->result->candidates += n;
    const int fewer = n > MANY ? (s->effort.first + 1) / 2 : s->effort.first; /* or time is over too soon */
    for (int blocks = fewer; n > 0 && blocks <= 16 * s->effort.first; blocks *= 2) {
        s->watcher(s->arg, what, *best_ratio);
        if (!tune_measure(&s->m, left, n, blocks, until)) {
            s->noisy = true;
            break;
        }
        n = tune_sort(left, n);
        if (n == 0)
            break;
        const double fastest = tune_median(left[0]);
        *best_ratio = fmin(fastest, 0);
        *best = fastest < 0 ? left[0]->choice : (tune_choice){0};
        int kept = n <= 2 ? n : (n + 1) / 2;
        /* The fastest of many is also the luckiest, and whoever is really faster may have had bad luck. */
        const double behind = 0.01 + 4 * tune_median_error(&s->m, left[0]->blocks);
        while (kept > 1 && tune_median(left[kept - 1]) > fastest + behind)
            kept--;
        const bool known = n < 2 || (n == 2 && tune_median_error(&s->m, left[0]->blocks) < near_enough);
        if (tune_stopped || tune_now() >= until || (known && blocks > 2 * s->effort.first))
            break;
        n = kept;
    }
    for (int i = 0; i < made; i++)
        tune_candidate_free(&all[i]);
    free(all);
}

/* Measures until each of the choices is known to be slower, or to be no slower and by how much; it looks after some
 * blocks, LOOKS times at most. */
static bool measure_proof(search *s, tune_measurement *m, tune_candidate **list, int count, double until) {
    enum { LOOKS = 9, LEAST = 6 };
    const int blocks = s->effort.proof / 3 > LEAST ? s->effort.proof / 3 : LEAST;
    bool open = true, quiet = true;
    for (int look = 0; look < LOOKS && open && quiet && tune_now() < until; look++) {
        quiet = tune_measure(m, list, count, blocks, until);
        open = false;
        for (int i = 0; i < count; i++) {
            const tune_interval t = tune_candidate_interval(m, list[i]);
            const double error = tune_median_error(m, list[i]->blocks);
            open = open || (t.low <= no_slower && (t.high >= no_slower || 3 * error > fmax(-t.median, no_slower)));
        }
    }
    return quiet;
}

/* The proof of up to two choices; the result gets the better of those that pass. */
static void prove(search *s, const tune_class *c, const tune_choice *choices, int count, double until) {
    tune_result *r = s->result;
    tune_shape proofs[TUNE_PROOFS];
    tune_together together[2] = {{0, 0, 0}, {0, 0, 0}};
    int n[2] = {0, 0};
    const int shapes = tune_class_proofs(c, s->ctx->threads, s->ctx->isa, proofs);
    const bool enough = shapes >= s->effort.shapes; /* a class of one or two shapes leaves nothing to prove it on */
    bool passed[2] = {enough, enough && count > 1};
    r->shapes[0] = '\0';
    for (int shape = 0; shape < s->effort.shapes && (passed[0] || passed[1]) && !tune_stopped; shape++) {
        const tune_shape proof = proofs[shape];
        tune_problem problem;
        tune_measurement m;
        char error[256], name[96];
        if (!tune_problem_make(s->ctx, &proof, &problem, error)) {
            r->verdict = VERDICT_large; /* what memory has no room for proves nothing */
            return;
        }
        tune_candidate candidate[2] = {0}, *list[2];
        int open = 0; /* those that did not fail on an earlier shape */
        bool made = tune_measurement_begin(&m, &problem);
        for (int i = 0; i < count && made; i++)
            if (passed[i]) {
                made = tune_candidate_make(&m, &choices[i], &candidate[i]);
                list[open++] = &candidate[i];
            }
        s->watcher(s->arg, "proof", -log(r->seen));
        const double share = tune_now() + (until - tune_now()) / (s->effort.shapes - shape);
        if (!made || !measure_proof(s, &m, list, open, share))
            s->noisy = s->noisy || made;
        for (int i = 0; i < count && made; i++) {
            if (!candidate[i].plan)
                continue;
            const tune_interval t = tune_candidate_interval(&m, &candidate[i]);
            passed[i] = t.high < no_slower;
            if (isinf(t.high)) /* so few blocks say nothing */
                too_few(s, &m);
            tune_together_add(&together[i], &m, &candidate[i]);
            n[i] += candidate[i].blocks;
        }
        for (int i = 0; i < count; i++) {
            passed[i] = passed[i] && made;
            tune_candidate_free(&candidate[i]);
        }
        tune_measurement_end(&m);
        tune_problem_free(&problem);
        tune_shape_name(&proof, name, sizeof name);
        snprintf(r->shapes + strlen(r->shapes), sizeof r->shapes - strlen(r->shapes), "%s%s", shape ? "," : "", name);
    }
    double best = 0;
    for (int i = 0; i < count; i++) {
        double error;
        const tune_interval t = tune_together_ratio(&together[i], &error);
        if (!passed[i] || tune_stopped || -t.median < fmax(log(1.02), 3 * error) || t.median >= best)
            continue;
        best = t.median;
        r->verdict = VERDICT_tuned;
        r->choice = choices[i];
        r->blocks = n[i];
        r->gain = (tune_interval){exp(-t.median), exp(-t.high), exp(-t.low)};
    }
}

/* How near the default is to what the machine can do. What it can do is the most that was seen: a share that says that
 * nothing is to be gained is not believed before the bound was measured again, as a neighbour may have been busy then.
 */
static double share_of_bound(const search *s, fv_tuning_op operation, double seconds) {
    enum { AGAIN = 5 };
    static struct {
        double most;
        fv_isa isa;
        int threads;
    } bounds[2];
    const bool cold = tune_is_cold(operation);
    const double work = cold ? tune_bytes(&s->problem.shape) : tune_flops(&s->problem.shape);
    if (bounds[cold].isa != s->ctx->isa || bounds[cold].threads != s->ctx->threads)
        bounds[cold].most = 0;
    bounds[cold].isa = s->ctx->isa;
    bounds[cold].threads = s->ctx->threads;
    for (int i = 0; i < AGAIN && work / seconds >= near_bound * bounds[cold].most; i++)
        bounds[cold].most = fmax(bounds[cold].most, cold ? tune_bandwidth(s->ctx) : tune_peak(s->ctx));
    return bounds[cold].most > 0 ? work / seconds / bounds[cold].most : 0;
}

/* best[2]: what is to be proved, *count of them. */
static void search_problem(search *s, const tune_class *c, double seconds, tune_choice *best, int *count) {
    const double begin = tune_now(), until = begin + 0.55 * seconds;
    tune_choice list[TUNE_CANDIDATES], winner = {0}, first = {0};
    double ratio = 0, after_first = 0;
    s->watcher(s->arg, "noise", 0);
    const bool quiet = tune_measure(&s->m, NULL, 0, s->effort.noise, begin + 0.25 * seconds);
    if (!quiet || s->m.base.blocks < 3) {
        s->noisy = !quiet;
        too_few(s, &s->m);
        return;
    }
    s->result->seconds = s->m.base.seconds;
    s->result->share = share_of_bound(s, c->operation, s->m.base.seconds);
    if (s->result->share >= near_bound && s->result->share < 2 - near_bound) { /* more: the bound is wrong */
        s->result->verdict = VERDICT_bound;
        return;
    }
    for (int stage = 0; stage < TUNE_STAGES && !s->noisy; stage++) {
        const double ends[TUNE_STAGES] = {fmin(until, tune_now() + 0.3 * seconds), until, until + 0.05 * seconds};
        const int n = tune_list(&s->problem, stage, &winner, s->m.base.plan, list);
        run_stage(s, tune_stages[stage], list, n, ends[stage], &winner, &ratio);
        if (stage == 0) {
            first = winner;
            after_first = ratio;
        }
    }
    if (ratio < 0)
        best[(*count)++] = winner;
    if (after_first < 0 && !tune_same_choice(&first, &winner))
        best[(*count)++] = first;
    s->result->seen = exp(-fmin(ratio, after_first));
}

void tune_search(const fovea_context *ctx, const tune_class *c, tune_effort effort, double seconds,
                 tune_watcher *watcher, void *arg, tune_result *result) {
    search s = {.ctx = ctx, .effort = efforts[effort], .watcher = watcher, .arg = arg, .result = result};
    const double begin = tune_now();
    char error[256];
    memset(result, 0, sizeof *result);
    result->seen = 1;
    if (!tune_problem_make(ctx, &c->search, &s.problem, error)) {
        result->verdict = VERDICT_large;
        return;
    }
    tune_choice best[2];
    int count = 0;
    if (tune_measurement_begin(&s.m, &s.problem))
        search_problem(&s, c, seconds, best, &count);
    tune_measurement_end(&s.m);
    tune_problem_free(&s.problem);
    if (count > 0 && !s.noisy && !tune_stopped)
        prove(&s, c, best, count, begin + seconds);
    if (result->verdict == VERDICT_unseen && !tune_stopped)
        result->verdict = s.noisy ? VERDICT_noisy : s.cut ? VERDICT_unseen : VERDICT_default;
}

/* May a class be worth another search? If it was too noisy (a neighbour may be gone by now), or if something was seen
 * that could not be proved in the time there was. */
static bool is_open(const tune_result *r) {
    return r->verdict == VERDICT_noisy || r->verdict == VERDICT_unseen ||
           (r->verdict == VERDICT_default && r->seen > 1.02);
}

typedef struct turn {
    int index;
    double cost;   /* seconds that an execution takes, about */
    double weight; /* of its share of the time */
} turn;

static int by_turn(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return x->cost != y->cost ? (x->cost > y->cost) - (x->cost < y->cost) : x->index - y->index;
}

/* Classes that are quick to measure first: what they leave of their share goes to those that need more, whose share is
 * up to most times as large. */
static turn *turns_of(const fovea_context *ctx, const tune_class *classes, int count) {
    const double usual = 0.002, most = 2.5;
    turn *turns = calloc((size_t)(count ? count : 1), sizeof *turns);
    for (int i = 0; turns && i < count; i++) {
        const double cost = tune_class_cost(&classes[i], ctx->threads, ctx->isa);
        turns[i] = (turn){i, cost, fmin(fmax(cost / usual, 1), most)};
    }
    if (turns)
        qsort(turns, (size_t)count, sizeof *turns, by_turn);
    return turns;
}

static void search_in_turn(const fovea_context *ctx, const tune_class *classes, const turn *turns, int count,
                           const tune_options *options, tune_watcher *watcher, tune_reporter *reporter, void *arg,
                           tune_result *results) {
    enum { ROUNDS = 4 }; /* who asks often enough is told what he wants to hear */
    const double begin = tune_now();
    double open = 0;
    for (int t = 0; t < count; t++)
        open += turns[t].weight;
    for (int round = 0; round < ROUNDS && open > 0 && !tune_stopped; round++) {
        double still = 0;
        for (int t = 0; t < count && !tune_stopped; t++) {
            const int i = turns[t].index;
            const double before = tune_now(), left = options->budget - (before - begin), weight = turns[t].weight;
            if (left <= 0 || (round > 0 && left <= 1))
                return;
            if (round > 0 && !is_open(&results[i]))
                continue;
            const tune_result earlier = results[i];
            reporter(arg, i, NULL, false, 0);
            tune_search(ctx, &classes[i], options->effort, left * weight / open, watcher, arg, &results[i]);
            open = fmax(open - weight, weight);
            const bool decided = results[i].verdict != VERDICT_noisy && results[i].verdict != VERDICT_unseen;
            if (round > 0 && !decided)
                results[i] = earlier;
            still += is_open(&results[i]) ? weight : 0;
            reporter(arg, i, &results[i], round == 0 || results[i].verdict != earlier.verdict, tune_now() - before);
        }
        open = still;
    }
}

void tune_search_all(const fovea_context *ctx, const tune_class *classes, int count, const tune_options *options,
                     tune_watcher *watcher, tune_reporter *reporter, void *arg, tune_result *results) {
    turn *turns = turns_of(ctx, classes, count);
    if (turns)
        search_in_turn(ctx, classes, turns, count, options, watcher, reporter, arg, results);
    for (int i = 0; i < count && !turns; i++)
        results[i].verdict = VERDICT_large;
    free(turns);
}

/* Too noisy to tell is an answer, and then nothing is stored; but who interrupts keeps what was proved until then. */
tune_outcome tune_outcome_of(const tune_result *results, int count) {
    tune_outcome o = {.status = TUNE_GOOD};
    double logs = 0;
    for (int i = 0; i < count; i++) {
        o.counts[results[i].verdict]++;
        logs += results[i].verdict == VERDICT_tuned ? log(results[i].gain.median) : 0;
    }
    const int decided = o.counts[VERDICT_tuned] + o.counts[VERDICT_default] + o.counts[VERDICT_bound];
    const bool noisy = o.counts[VERDICT_noisy] > decided, large = o.counts[VERDICT_large] == count;
    o.gain = exp(logs / fmax(o.counts[VERDICT_tuned], 1));
    o.store = decided > 0 && (!noisy || tune_stopped);
    if (tune_stopped)
        o.status = TUNE_STOPPED;
    else if (large)
        o.status = TUNE_FAILED;
    else if (noisy || decided == 0)
        o.status = TUNE_NOISY;
    return o;
}

fv_tuning_row tune_row(const fovea_context *ctx, const tune_class *c, const tune_result *r) {
    fv_tuning_row row = {.known = true, .operation = c->operation, .isa = ctx->isa, .threads = ctx->threads};
    memcpy(row.key, c->key, sizeof row.key);
    memcpy(row.knob, r->choice.knob, sizeof row.knob);
    row.evidence = (fv_tuning_evidence){.gain = llround(1000 * r->gain.median),
                                        .low = llround(1000 * r->gain.low),
                                        .high = llround(1000 * r->gain.high),
                                        .blocks = r->blocks};
    snprintf(row.evidence.shapes, sizeof row.evidence.shapes, "%s", r->shapes);
    fv_tuning_print_row(&row);
    return row;
}
