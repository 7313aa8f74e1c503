/* Measurements.
 *
 * A block is: the default, up to TUNE_TOGETHER candidates in random order, the same in reverse, the default again. What
 * counts is the logarithm of a candidate's time (the mean of its two) over the default's (likewise) within the block: a
 * drift of the clock frequency cancels, as does a neighbour who stays. A sample in which the process was switched away
 * is taken again at once; a block that cannot be had without, or in which the hypervisor stole time or the quota
 * throttled, or whose two defaults are far apart, is thrown away.
 */
#include "measure.h"
#include "machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

bool tune_candidate_make(tune_measurement *m, const tune_choice *choice, tune_candidate *candidate) {
    memset(candidate, 0, sizeof *candidate);
    candidate->choice = *choice;
    candidate->seconds = INFINITY;
    candidate->plan = tune_problem_plan(m->problem, choice);
    return candidate->plan != NULL;
}

void tune_candidate_free(tune_candidate *candidate) {
    tune_plan_free(candidate->plan);
    candidate->plan = NULL;
}

int tune_executions(double seconds) {
    const double shortest = 1e-3; /* of a sample: a thousand times the clock's step, a tenth of a cgroup's period */
    return (int)fmin(fmax(ceil(shortest / seconds), 1), 10000);
}

bool tune_measurement_begin(tune_measurement *m, tune_problem *problem) {
    enum { WARM_UP = 3 };
    memset(m, 0, sizeof *m);
    m->problem = problem;
    m->random = 0x9e3779b97f4a7c15u;
    const tune_choice none = {0};
    m->control = tune_problem_plan(problem, &none);
    if (!m->control || !tune_candidate_make(m, &none, &m->base))
        return false;
    problem->executions = 1;
    double seconds = INFINITY;
    for (int i = 0; i < WARM_UP; i++)
        seconds = fmin(seconds, tune_problem_time(problem, m->base.plan));
    problem->executions = tune_executions(seconds);
    return true;
}

void tune_measurement_end(tune_measurement *m) {
    tune_plan_free(m->control);
    tune_candidate_free(&m->base);
}

/* One sample that nobody interrupted; negative if there is none. */
static double sample(tune_measurement *m, const tune_plan *plan) {
    enum { TRIES = 6 };
    for (int i = 0; i < TRIES; i++) {
        const long before = tune_involuntary();
        const double seconds = tune_problem_time(m->problem, plan);
        if (tune_involuntary() == before)
            return seconds;
    }
    return -1;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The default's time when no neighbour is busy: the lower quartile of its times in the last blocks. The minimum may
 * never come again: the clock was boosted, or operands that should be cold were still in a cache. */
static double quiet_time(tune_measurement *m, double seconds) {
    double sorted[TUNE_RECENT];
    m->recent[m->looked_at++ % TUNE_RECENT] = seconds;
    const int n = m->looked_at < TUNE_RECENT ? m->looked_at : TUNE_RECENT;
    memcpy(sorted, m->recent, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return sorted[n / 4];
}

/* A block of the plans: plan[0] is the default; *sum of each of the two times, as logarithms. */
static bool run_block(tune_measurement *m, tune_plan **plan, int count, double *sum, double *fastest) {
    int order[TUNE_TOGETHER + 2];
    for (int i = 0; i < count; i++) {
        order[i] = i;
        sum[i] = 0;
        fastest[i] = INFINITY;
    }
    for (int i = count - 1; i > 1; i--) { /* the default stays first */
        const int j = 1 + (int)(next_random(&m->random) % (uint64_t)i);
        const int other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    const tune_noise before = tune_noise_now();
    double ends[2] = {0, 0};
    for (int i = 0; i < 2 * count; i++) {
        const int which = order[i < count ? i : 2 * count - 1 - i];
        const double seconds = sample(m, plan[which]);
        if (seconds <= 0)
            return false;
        sum[which] += log(seconds);
        fastest[which] = fmin(fastest[which], seconds);
        if (which == 0)
            ends[i > 0] = seconds;
    }
    const tune_noise after = tune_noise_now();
    if (after.throttled != before.throttled)
        m->pause = fmin(fmax(2 * m->pause, 0.02), 0.2);
    const double quiet = quiet_time(m, fastest[0]);
    return after.throttled == before.throttled && after.steal == before.steal && fmax(ends[0], ends[1]) < 1.3 * quiet &&
           fabs(log(ends[0] / ends[1])) < 0.15;
}

static void pause_after(const tune_measurement *m) {
    if (m->pause > 0)
        tune_rest(m->pause);
}

/* Measures one block of the default, its control and n candidates; false if it had to be thrown away. */
static bool take_block(tune_measurement *m, tune_candidate **candidates, int n) {
    tune_plan *plan[TUNE_TOGETHER + 2] = {m->base.plan, m->control};
    double sum[TUNE_TOGETHER + 2], fastest[TUNE_TOGETHER + 2];
    for (int i = 0; i < n; i++)
        plan[2 + i] = candidates[i]->plan;
    const bool good = run_block(m, plan, n + 2, sum, fastest);
    pause_after(m);
    m->kept += good;
    m->thrown += !good;
    if (!good)
        return false;
    m->base.seconds = fmin(m->base.seconds, fastest[0]);
    if (m->base.blocks < TUNE_BLOCKS)
        m->base.ratio[m->base.blocks++] = (sum[1] - sum[0]) / 2;
    for (int i = 0; i < n; i++) {
        tune_candidate *c = candidates[i];
        c->seconds = fmin(c->seconds, fastest[2 + i]);
        if (c->blocks < TUNE_BLOCKS)
            c->ratio[c->blocks++] = (sum[2 + i] - sum[0]) / 2;
    }
    return true;
}

bool tune_measure(tune_measurement *m, tune_candidate **candidates, int count, int blocks, double until) {
    enum { PATIENCE = 20, IN_A_ROW = 3 };
    const double burst = 0.05; /* seconds: a neighbour's burst is waited out */
    const int kept = m->kept, thrown = m->thrown;
    for (int block = 0; block < blocks; block++)
        for (int first = 0; first < count || first == 0; first += TUNE_TOGETHER) {
            tune_candidate **some = count ? candidates + first : NULL;
            const int n = count - first < TUNE_TOGETHER ? count - first : TUNE_TOGETHER;
            for (int tries = 0;; tries++) {
                if (tune_stopped || tune_now() >= until)
                    return true;
                if (m->thrown - thrown > PATIENCE && m->thrown - thrown > 4 * (m->kept - kept))
                    return false;
                if (tries > IN_A_ROW)
                    tune_rest(burst);
                if (take_block(m, some, n))
                    break;
            }
        }
    return true;
}

static double median_of(const double *values, int count) {
    double sorted[TUNE_BLOCKS];
    if (count < 1)
        return 0;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double tune_median(const tune_candidate *c) { return median_of(c->ratio, c->blocks); }

static int by_median(const void *a, const void *b) {
    const double x = tune_median(*(tune_candidate *const *)a), y = tune_median(*(tune_candidate *const *)b);
    return (x > y) - (x < y);
}

int tune_sort(tune_candidate **candidates, int count) {
    int seen = 0;
    for (int i = 0; i < count; i++)
        if (candidates[i]->blocks > 0)
            candidates[seen++] = candidates[i];
    qsort(candidates, (size_t)seen, sizeof *candidates, by_median);
    return seen;
}

/* The standard error of a median of `blocks` values, estimated from the spread of `count` values. */
static double median_error(const double *values, int count, int blocks) {
    double deviation[TUNE_BLOCKS];
    if (count < 2)
        return INFINITY;
    const double median = median_of(values, count);
    for (int i = 0; i < count; i++)
        deviation[i] = fabs(values[i] - median);
    const double one = 1.4826 * median_of(deviation, count); /* the standard deviation of one */
    return 1.2533 * one / sqrt(blocks > 0 ? blocks : 1);     /* sqrt(pi / 2) times that of a mean */
}

double tune_median_error(const tune_measurement *m, int blocks) {
    return median_error(m->base.ratio, m->base.blocks, blocks);
}

tune_interval tune_candidate_interval(const tune_measurement *m, const tune_candidate *c) {
    const double median = tune_median(c);
    const double own = median_error(c->ratio, c->blocks, c->blocks), control = tune_median_error(m, c->blocks);
    const double half =
        c->blocks < TUNE_LEAST ? INFINITY : 1.96 * fmax(own, control); /* the larger: few tell too little */
    return (tune_interval){median, median - half, median + half};
}

bool tune_is_default(const tune_measurement *m, const tune_candidate *candidate) {
    return tune_same_plan(candidate->plan, m->base.plan);
}

void tune_together_add(tune_together *t, const tune_measurement *m, const tune_candidate *candidate) {
    t->shapes++;
    if (tune_is_default(m, candidate)) /* by chance the default might seem faster than itself */
        return;
    const double error = tune_median_error(m, candidate->blocks);
    t->sum += tune_median(candidate);
    t->variance += error * error;
}

tune_interval tune_together_ratio(const tune_together *t, double *error) {
    const double shapes = t->shapes > 0 ? t->shapes : 1, mean = t->sum / shapes;
    *error = sqrt(t->variance) / shapes;
    return (tune_interval){mean, mean - 1.96 * *error, mean + 1.96 * *error};
}
