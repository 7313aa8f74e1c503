/* Finds the factor by which to correct reported cache sizes.
 *
 * If a hypervisor reports wrong sizes, all classes suffer, even those that lose less than the least gain that is
 * stored for one class. So the factor is found once, before the classes. The shape of each class's search is
 * measured with the defaults for caches of other sizes. The best size and the next beyond are proved on a shape of
 * each class that the search did not see. A size is stored if it is faster by more than 0.5 % and three standard
 * errors, on average over the shapes whose plans it changes; of two, the faster. It is not stored if more than one
 * class in eight is, or may be, more than 1 % slower. Such a class keeps its sizes by a row of its own
 * (tune_keep_sizes). */
#include "scale.h"
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double no_slower = 0.01, least = 0.005;

enum { PROVED = 2 };
const int64_t tune_scales[TUNE_SCALES] = {50, 200, 400};

/* Of the budget: what is spent on looking, and if that is promising on the proof. */
static const double look_share = 0.1, proof_share = 0.3;

/* One of the sizes. */
typedef struct trial {
    int64_t percent;
    double sum, variance;  /* over shapes: of logarithms of ratios, and of their errors */
    int changed;           /* shapes whose plans it changes */
    int blocks, slow;      /* slow: classes that are slower, or may be */
    tune_interval *slower; /* [classes] how much, as logarithms; 0: not */
    char shapes[FV_TUNING_SHAPES];
} trial;

/* A shape with the trials that are not the default on it; several that are the same are measured once. */
typedef struct sample {
    tune_problem problem;
    tune_measurement m;
    tune_candidate candidate[TUNE_SCALES];
    int of[TUNE_SCALES]; /* the candidate of each trial; -1: the default */
    int count;
} sample;

static void sample_free(sample *s) {
    for (int i = 0; i < s->count; i++)
        tune_candidate_free(&s->candidate[i]);
    tune_measurement_end(&s->m);
    tune_problem_free(&s->problem);
}

static bool sample_make(const fovea_context *ctx, const tune_shape *shape, const trial *trials, int count, sample *s) {
    char error[256];
    memset(s, 0, sizeof *s);
    if (!tune_problem_make(ctx, shape, &s->problem, error))
        return false;
    bool made = tune_measurement_begin(&s->m, &s->problem);
    for (int i = 0; i < count && made; i++) {
        const tune_choice choice = {.cache_scale = trials[i].percent};
        tune_candidate *c = &s->candidate[s->count];
        s->of[i] = -1;
        made = tune_candidate_make(&s->m, &choice, c);
        if (!made || tune_is_default(&s->m, c)) {
            tune_candidate_free(c);
            continue;
        }
        int same = 0;
        while (same < s->count && !tune_same_plan(s->candidate[same].plan, c->plan))
            same++;
        if (same < s->count)
            tune_candidate_free(c);
        else
            s->count++;
        s->of[i] = same;
    }
    if (!made)
        sample_free(s);
    return made;
}

/* Adds what was measured to the trials. */
static void sample_add(const sample *s, trial *trials, int count) {
    char name[96];
    for (int i = 0; i < count; i++) {
        if (s->of[i] < 0)
            continue;
        const tune_candidate *c = &s->candidate[s->of[i]];
        const double error = tune_median_error(&s->m, c->blocks);
        trial *t = &trials[i];
        t->sum += tune_median(c);
        t->variance += error * error;
        t->changed++;
        t->blocks += c->blocks;
        tune_shape_name(&s->problem.shape, name, sizeof name);
        const size_t used = strlen(t->shapes);
        if (used + strlen(name) + 2 < sizeof t->shapes)
            snprintf(t->shapes + used, sizeof t->shapes - used, "%s%s", used ? "," : "", name);
    }
}

/* Sums up the trials on the shapes of the searches; false if not all could be measured. Making a shape takes time, too,
 * so none is begun where that is over. */
static bool look(const fovea_context *ctx, const tune_class *classes, int count, int blocks, trial *trials,
                 double until) {
    bool all = true;
    for (int i = 0; i < count && !tune_stopped; i++) {
        sample s;
        const double now = tune_now(), share = now + (until - now) / (count - i);
        if (now >= until)
            return false;
        if (!sample_make(ctx, &classes[i].search, trials, TUNE_SCALES, &s))
            continue;
        tune_candidate *list[TUNE_SCALES];
        for (int k = 0; k < s.count; k++)
            list[k] = &s.candidate[k];
        if (s.count > 0)
            tune_measure(&s.m, list, s.count, blocks, share);
        bool measured = true;
        for (int k = 0; k < s.count; k++)
            measured = measured && s.candidate[k].blocks > 0;
        if (measured)
            sample_add(&s, trials, TUNE_SCALES);
        all = all && measured;
        sample_free(&s);
    }
    return all && !tune_stopped;
}

/* Measures a shape until it is known of each trial whether it is slower there, or its time is over. */
static void prove_shape(sample *s, trial *trials, int count, int index, double share) {
    enum { LOOKS = 8 };
    tune_candidate *list[TUNE_SCALES];
    bool open = s->count > 0;
    for (int k = 0; k < s->count; k++)
        list[k] = &s->candidate[k];
    for (int at = 0; at < LOOKS && open && tune_now() < share && !tune_stopped; at++) {
        tune_measure(&s->m, list, s->count, TUNE_LEAST, share);
        open = false;
        for (int k = 0; k < s->count; k++) {
            const tune_interval t = tune_candidate_interval(&s->m, &s->candidate[k]);
            open = open || (t.low <= no_slower && t.high >= no_slower);
        }
    }
    for (int i = 0; i < count; i++) {
        if (s->of[i] < 0)
            continue;
        const tune_interval t = tune_candidate_interval(&s->m, &s->candidate[s->of[i]]);
        if (t.median > 0 && t.high >= no_slower) {
            trials[i].slower[index] = t;
            trials[i].slow++;
        }
    }
}

/* False if there was no time for all classes. */
static bool prove(const fovea_context *ctx, const tune_class *classes, int count, trial *trials, int proved,
                  double until) {
    for (int i = 0; i < count && !tune_stopped; i++) {
        tune_shape shapes[TUNE_PROOFS];
        sample s;
        const double now = tune_now(), share = now + (until - now) / (count - i);
        if (now >= until)
            return false;
        const int known = tune_class_proofs(&classes[i], ctx->threads.count, ctx->target.isa, shapes);
        if (known == 0 || !sample_make(ctx, &shapes[i % known], trials, proved, &s))
            continue;
        prove_shape(&s, trials, proved, i, share);
        sample_add(&s, trials, proved);
        sample_free(&s);
    }
    return !tune_stopped;
}

static double mean_of(const trial *t) { return t->changed ? t->sum / t->changed : 0; }

/* The best of the search, if it is faster than the default, and the next size beyond. How many. */
static int promising(const trial *trials, trial best[PROVED]) {
    int at = 0;
    for (int i = 1; i < TUNE_SCALES; i++)
        if (trials[i].sum < trials[at].sum)
            at = i;
    const int64_t percent = trials[at].percent;
    if (trials[at].sum >= 0 || mean_of(&trials[at]) > -least / 2)
        return 0;
    best[0] = (trial){.percent = percent};
    best[1] = (trial){.percent = percent > 100 ? 2 * percent : percent / 2};
    return PROVED;
}

void tune_find_scale(const fovea_context *ctx, const tune_class *classes, int count, tune_effort effort, double budget,
                     tune_watcher *watcher, void *arg, tune_scale *scale) {
    const double begin = tune_now();
    trial trials[TUNE_SCALES] = {{0}}, best[PROVED];
    *scale = (tune_scale){.percent = 100, .seen = 1};
    for (int i = 0; i < TUNE_SCALES; i++)
        trials[i].percent = tune_scales[i];
    watcher(arg, "caches", 0);
    const bool all = look(ctx, classes, count, tune_proof_blocks(effort) / 3, trials, begin + look_share * budget);
    const int n = promising(trials, best);
    double seen = 0;
    for (int i = 0; i < TUNE_SCALES; i++)
        seen = fmin(seen, mean_of(&trials[i]));
    scale->seen = exp(-seen);
    scale->known = all;
    scale->slower = calloc((size_t)(3 * count > 0 ? 3 * count : 1), sizeof *scale->slower);
    if (n == 0 || tune_stopped || !scale->slower)
        return;
    for (int i = 0; i < n; i++)
        best[i].slower = scale->slower + (i + 1) * count;
    watcher(arg, "proof of caches", seen);
    const bool proved = prove(ctx, classes, count, best, n, tune_now() + proof_share * budget);
    scale->known = proved;
    double fastest = 0;
    for (int i = 0; i < n; i++) {
        const trial *t = &best[i];
        const double mean = mean_of(t), error = t->changed ? sqrt(t->variance) / t->changed : INFINITY;
        const bool faster = -mean > fmax(least, 3 * error), many = t->slow > (count < 8 ? 1 : count / 8);
        scale->known = scale->known && !(faster && many);
        if (many || !faster || mean >= fastest || !proved)
            continue;
        fastest = mean;
        memcpy(scale->slower, t->slower, (size_t)count * sizeof *t->slower);
        scale->percent = t->percent;
        scale->gain = (tune_interval){exp(-mean), exp(-mean - 1.96 * error), exp(-mean + 1.96 * error)};
        scale->blocks = t->blocks;
        memcpy(scale->shapes, t->shapes, sizeof scale->shapes);
    }
    scale->known = scale->known || scale->percent != 100;
}

void tune_keep_sizes(fovea_context *ctx, const tune_scale *scale, const tune_class *classes, int count,
                     tune_result *results) {
    for (int i = 0; i < count && scale->percent != 100 && scale->slower; i++) {
        tune_choice usual, effect;
        const tune_interval t = scale->slower[i];
        if (t.median <= 0 || results[i].verdict == VERDICT_tuned)
            continue;
        ctx->tuning.cache_scale = 100;
        const bool made = tune_choice_of(ctx, &classes[i].search, NULL, &usual, &effect);
        ctx->tuning.cache_scale = scale->percent;
        if (!made)
            continue;
        usual.cache_scale = 0;
        results[i].verdict = VERDICT_tuned;
        results[i].choice = usual;
        results[i].gain = (tune_interval){exp(t.median), exp(fmax(t.low, -1)), exp(fmin(t.high, 1))};
        results[i].blocks = TUNE_LEAST;
        tune_shape_name(&classes[i].search, results[i].shapes, sizeof results[i].shapes);
    }
}

void tune_scale_free(tune_scale *scale) {
    free(scale->slower);
    scale->slower = NULL;
}

fv_tuning_machine tune_machine(const fovea_context *ctx, const tune_scale *scale) {
    const bool other = scale->percent != 100;
    const tune_interval gain = other ? scale->gain : (tune_interval){1, 1, 1};
    fv_tuning_machine machine = {.cache_scale = scale->percent, .isa = ctx->target.isa, .threads = ctx->threads.count};
    machine.evidence = (fv_tuning_evidence){.gain = llround(1000 * gain.median),
                                            .low = llround(1000 * gain.low),
                                            .high = llround(1000 * gain.high),
                                            .blocks = scale->blocks};
    snprintf(machine.evidence.shapes, sizeof machine.evidence.shapes, "%s", other ? scale->shapes : "none");
    return machine;
}
