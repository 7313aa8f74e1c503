/* The search for a class.
 *
 * In rounds, each over candidates that differ from the best so far in one field (candidates.c), or in two sizes if none
 * was faster. A round is a successive halving: some blocks for all, the better half goes on with twice the blocks,
 * until two are left. A candidate far behind the best drops out at once.
 *
 * What wins, its runner-up of another size (should the winner's have been luck, or suit only the shape of the search)
 * and the winner of the first round go to the proof (proof.c), as many as it has time for. */
#include "search.h"

#include "candidates.h"
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least gain in the search, as a logarithm, that is worth a proof. */
static const double promising = 0.01;

/* A standard error with which the last two of a round are told from each other. */
static const double near_enough = 0.003;

/* More than MANY candidates start with half as many blocks; a search has at most MOVES rounds. */
enum { MANY = 32, MOVES = 6 };

/* A run ends early if its first HOPELESS classes, or more, were all too noisy and took more than `patience` of its
 * time. */
enum { HOPELESS = 5 };
static const double patience = 0.1;

/* The winners of a search's rounds. */
typedef struct podium {
    tune_standing standing[2 * MOVES];
    int count;
} podium;

/* Is a choice of another size than the best on all shapes of the proof? Others come to the same on some of them. */
static bool is_another_size(const tune_search_state *s, const tune_choice *one, const tune_choice *best) {
    bool another = true;
    for (int k = 0; k < s->known && another; k++) {
        tune_choice choice, a, b;
        another = tune_choice_of(s->ctx, &s->proofs[k], one, &choice, &a) &&
                  tune_choice_of(s->ctx, &s->proofs[k], best, &choice, &b);
        bool same = true;
        for (int i = 0; i < FV_TUNING_KNOBS && another; i++)
            same = same && a.knob[i].number == b.knob[i].number;
        another = another && !same;
    }
    return another;
}

/* The place of the fastest that is of another size than the first; n if there is none. */
static int runner_up(const tune_search_state *s, tune_candidate *const *left, int n) {
    int i = 1;
    while (i < n && !is_another_size(s, &left[i]->choice, &left[0]->choice))
        i++;
    return i;
}

static void add_standing(podium *p, const tune_candidate *c) {
    p->standing[p->count++] = (tune_standing){c->choice, tune_median(c)};
}

/* Halves until two are left, if possible of different sizes, and adds them, the fastest last. The best so far competes
 * again as the first candidate (from), since a few blocks may have flattered it; a candidate replaces it only if its
 * gain exceeds the measurement error. */
static void run_round(tune_search_state *s, const char *what, const tune_choice *list, int count, bool from,
                      double until, podium *left_over) {
    tune_candidate *all = calloc((size_t)(count ? count : 1), sizeof *all), *left[TUNE_CANDIDATES];
    int n = 0, made = 0, runner = 0;
    double fastest = 0;
    for (int i = 0; all && i < count; i++)
        if (tune_candidate_make(&s->m, &list[i], &all[made]))
            left[n++] = &all[made++];
    s->result->candidates += n;
    const int fewer = n > MANY ? (s->effort.first + 1) / 2 : s->effort.first; /* or time is over too soon */
    for (int blocks = fewer; n > 0 && blocks <= 16 * s->effort.first; blocks *= 2) {
        s->watcher(s->arg, what, fastest);
        if (!tune_measure(&s->m, left, n, blocks, until)) {
            s->noisy = true;
            break;
        }
        n = tune_sort(left, n);
        if (n == 0)
            break;
        fastest = tune_median(left[0]);
        runner = runner_up(s, left, n);
        /* The fastest of many is also the luckiest, and whoever is really faster may have had bad luck. */
        const double behind = 0.01 + 4 * tune_median_error(&s->m, left[0]->blocks);
        int kept = n <= 2 ? n : (n + 1) / 2;
        while (kept > 1 && tune_median(left[kept - 1]) > fastest + behind)
            kept--;
        const bool known = n < 2 || (n == 2 && tune_median_error(&s->m, left[0]->blocks) < near_enough);
        if (tune_stopped || tune_now() >= until || (known && blocks > 2 * s->effort.first))
            break;
        if (runner < n && runner >= kept)
            left[kept++] = left[runner];
        n = kept;
    }
    if (runner > 0 && runner < n)
        add_standing(left_over, left[runner]);
    const bool gains = n > 0 && tune_median(left[0]) < tune_median(&all[0]) - near_enough;
    if (n > 0 && left[0]->blocks > 0)
        add_standing(left_over, from && !gains ? &all[0] : left[0]);
    for (int i = 0; i < made; i++)
        tune_candidate_free(&all[i]);
    free(all);
}

static int add_finalist(tune_standing *finalist, int count, const tune_standing *one) {
    for (int i = 0; i < count; i++)
        if (tune_same_choice(&finalist[i].choice, &one->choice))
            return count;
    if (one->ratio < -promising)
        finalist[count++] = *one;
    return count;
}

/* Returns how many are to be proved. */
static int search_problem(tune_search_state *s, double seconds, tune_standing finalist[TUNE_FINALISTS]) {
    const double begin = tune_now(), until = begin + 0.48 * seconds;
    tune_choice list[TUNE_CANDIDATES];
    tune_standing winner = {0}, first = {0}, second = {0};
    podium left = {.count = 0};
    s->watcher(s->arg, "noise", 0);
    const bool quiet = tune_measure(&s->m, NULL, 0, s->effort.noise, begin + 0.25 * seconds);
    if (!quiet || s->m.base.blocks < 3) {
        s->noisy = !quiet;
        tune_too_few(s, &s->m);
        return 0;
    }
    s->result->seconds = s->m.base.seconds;
    for (int round = 0, changes = 1; round < MOVES && !s->noisy && tune_now() < until; round++) {
        const tune_choice from = winner.choice;
        const double end = round ? until : fmin(until, tune_now() + 0.25 * seconds);
        const int n = tune_list(&s->problem, &from, changes, s->m.base.plan, list);
        run_round(s, changes == 1 ? "candidates" : "pairs of sizes", list, n, round > 0 && winner.ratio < 0, end,
                  &left);
        if (left.count > 0 && left.standing[left.count - 1].ratio < 0)
            winner = left.standing[left.count - 1];
        if (round == 0)
            first = winner;
        const bool moved = !tune_same_choice(&winner.choice, &from);
        if (!moved && changes == 2)
            break;
        changes = moved ? 1 : 2;
    }
    for (int i = 0; i < left.count; i++)
        if (left.standing[i].ratio < second.ratio && is_another_size(s, &left.standing[i].choice, &winner.choice))
            second = left.standing[i];
    int count = add_finalist(finalist, 0, &winner);
    count = add_finalist(finalist, count, &second);
    count = add_finalist(finalist, count, &first);
    s->result->seen = exp(-fmin(winner.ratio, fmin(second.ratio, first.ratio)));
    return count;
}

void tune_search(const fovea_context *ctx, const tune_class *c, tune_effort effort, double seconds,
                 tune_watcher *watcher, void *arg, tune_result *result) {
    tune_search_state s = tune_search_begin(ctx, c, effort, watcher, arg, result);
    const double begin = tune_now();
    char error[256];
    memset(result, 0, sizeof *result);
    result->seen = 1;
    if (!tune_problem_make(ctx, &c->search, &s.problem, error)) {
        result->verdict = VERDICT_large;
        return;
    }
    tune_standing finalist[TUNE_FINALISTS];
    int count = 0;
    if (tune_measurement_begin(&s.m, &s.problem))
        count = search_problem(&s, seconds, finalist);
    tune_measurement_end(&s.m);
    tune_problem_free(&s.problem);
    if (count > 0 && !s.noisy && !tune_stopped)
        tune_prove(&s, c, finalist, count, begin + seconds);
    if (result->verdict == VERDICT_no_time && !tune_stopped)
        result->verdict = s.noisy            ? VERDICT_noisy
                          : s.cut            ? VERDICT_no_time
                          : result->seen > 1 ? VERDICT_unconfirmed
                                             : VERDICT_default;
}

/* May a class be worth another search? If it was too noisy (a neighbour may be gone by now), or if something was seen
 * that could not be proved in the time there was. */
static bool is_open(const tune_result *r) {
    return r->verdict == VERDICT_noisy || r->verdict == VERDICT_no_time ||
           (r->verdict == VERDICT_unconfirmed && r->seen > 1.02);
}

typedef struct turn {
    int index;
    double cost;   /* seconds that an execution takes, about */
    double weight; /* of its share of the time */
    double spent;  /* seconds of all its searches so far */
    bool reported;
} turn;

static int by_turn(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return x->cost != y->cost ? (x->cost > y->cost) - (x->cost < y->cost) : x->index - y->index;
}

/* Classes that are quick to measure first: what they leave of their share goes to those that need more, whose share is
 * up to most times as large. */
static turn *turns_of(const fovea_context *ctx, const tune_class *classes, int count) {
    const double usual = 0.002, most = 3;
    turn *turns = calloc((size_t)(count ? count : 1), sizeof *turns);
    for (int i = 0; turns && i < count; i++) {
        const double cost = tune_class_cost(&classes[i], ctx->threads.count, ctx->target.isa);
        turns[i] = (turn){.index = i, .cost = cost, .weight = fmin(fmax(cost / usual, 1), most)};
    }
    if (turns)
        qsort(turns, (size_t)count, sizeof *turns, by_turn);
    return turns;
}

/* Returns as tune_search_all(). */
static int search_in_turn(const fovea_context *ctx, const tune_class *classes, turn *turns, int count,
                          tune_effort effort, double seconds, tune_watcher *watcher, tune_reporter *reporter, void *arg,
                          tune_result *results) {
    enum { ROUNDS = 4 }; /* who asks often enough is told what he wants to hear */
    const double begin = tune_now();
    double open = 0;
    int noisy = 0, hopeless = 0;
    for (int t = 0; t < count; t++)
        open += turns[t].weight;
    for (int round = 0; round < ROUNDS && open > 0 && !tune_stopped && !hopeless; round++) {
        double still = 0;
        for (int t = 0; t < count && !tune_stopped && !hopeless; t++) {
            const int i = turns[t].index;
            const double before = tune_now(), weight = turns[t].weight;
            const double left = seconds - (before - begin);
            if (left <= 0 || (round > 0 && left <= 1))
                break;
            if (round > 0 && !is_open(&results[i]))
                continue;
            const tune_result earlier = results[i];
            reporter(arg, i, NULL, 0);
            tune_search(ctx, &classes[i], effort, left * weight / open, watcher, arg, &results[i]);
            open = fmax(open - weight, weight);
            const bool decided = results[i].verdict != VERDICT_noisy && results[i].verdict != VERDICT_no_time;
            if (round > 0 && !decided)
                results[i] = earlier;
            still += is_open(&results[i]) ? weight : 0;
            turns[t].spent += tune_now() - before;
            turns[t].reported = !is_open(&results[i]);
            if (turns[t].reported)
                reporter(arg, i, &results[i], turns[t].spent);
            noisy += round == 0 && results[i].verdict == VERDICT_noisy;
            if (round == 0 && noisy == t + 1 && noisy >= HOPELESS && tune_now() - begin > patience * seconds)
                hopeless = noisy;
        }
        open = still;
    }
    for (int t = hopeless; t < count && hopeless; t++)
        results[turns[t].index].verdict = VERDICT_noisy;
    for (int t = 0; t < count; t++)
        if (!turns[t].reported)
            reporter(arg, turns[t].index, &results[turns[t].index], turns[t].spent);
    return hopeless;
}

int tune_search_all(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double seconds,
                    tune_watcher *watcher, tune_reporter *reporter, void *arg, tune_result *results) {
    turn *turns = turns_of(ctx, classes, count);
    int hopeless = 0;
    if (turns)
        hopeless = search_in_turn(ctx, classes, turns, count, effort, seconds, watcher, reporter, arg, results);
    for (int i = 0; i < count && !turns; i++)
        results[i].verdict = VERDICT_large;
    free(turns);
    return hopeless;
}

/* Too noisy to tell is an answer, and then nothing is stored; but who interrupts keeps what was proved until then. */
tune_outcome tune_outcome_of(const tune_result *results, int count) {
    tune_outcome o = {.status = TUNE_GOOD};
    double logs = 0;
    for (int i = 0; i < count; i++) {
        o.counts[results[i].verdict]++;
        logs += results[i].verdict == VERDICT_tuned ? log(results[i].gain.median) : 0;
    }
    const int decided = o.counts[VERDICT_tuned] + o.counts[VERDICT_default] + o.counts[VERDICT_unconfirmed];
    const bool noisy = o.counts[VERDICT_noisy] > decided, large = o.counts[VERDICT_large] == count;
    o.gain = exp(logs / fmax(o.counts[VERDICT_tuned], 1));
    o.store = decided > 0 && (!noisy || tune_stopped);
    if (tune_stopped)
        o.status = TUNE_STOPPED;
    else if (large)
        o.status = TUNE_FAILED;
    else if (!o.store)
        o.status = TUNE_NOISY;
    return o;
}

fv_tuning_row tune_row(const fovea_context *ctx, const tune_class *c, const tune_result *r) {
    fv_tuning_row row = {
        .known = true, .operation = c->operation, .isa = ctx->target.isa, .threads = ctx->threads.count};
    memcpy(row.key, c->key, sizeof row.key);
    memcpy(row.knob, r->choice.knob, sizeof row.knob);
    row.evidence = (fv_tuning_evidence){.gain = llround(1000 * r->gain.median),
                                        .low = llround(1000 * r->gain.low),
                                        .high = llround(1000 * r->gain.high),
                                        .blocks = r->blocks};
    snprintf(row.evidence.shapes, sizeof row.evidence.shapes, "%s", r->shapes);
    return row;
}
