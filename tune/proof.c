/* The proof of what a search found: other shapes of the class, measured anew.
 *
 * A choice passes if it is at most 1 % slower on each of them, as far as is known (the slower end of the
 * interval), and on average faster by more than 2 % and three standard errors of the default against itself. The
 * fastest that passes is stored. On at least two of the shapes it must be another plan than the default: a kernel
 * that is the default of 6 rows was 20 % faster for 5 of 576 columns, and 19 % slower for 5 of 448. */
#include "trial.h"

#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const tune_verdicts[] = {[VERDICT_no_time] = "not stored: not enough time",
                                     [VERDICT_default] = "default confirmed as best",
                                     [VERDICT_unconfirmed] = "default kept",
                                     [VERDICT_tuned] = "faster choice",
                                     [VERDICT_noisy] = "not stored: too noisy to tell",
                                     [VERDICT_large] = "not stored: larger than memory allows"};

static const tune_effort_numbers efforts[] = {
    [EFFORT_quick] = {1, 5, 9, 2}, [EFFORT_normal] = {2, 8, 15, 3}, [EFFORT_thorough] = {4, 16, 31, 3}};

int tune_proof_blocks(tune_effort effort) { return efforts[effort].proof; }

void tune_too_few(tune_search_state *s, const tune_measurement *m) {
    if (m->thrown > m->kept)
        s->noisy = true;
    else
        s->cut = true;
}

tune_search_state tune_search_begin(const fovea_context *ctx, const tune_class *c, tune_effort effort,
                                    tune_watcher *watcher, void *arg, tune_result *result) {
    tune_search_state s = {.ctx = ctx, .effort = efforts[effort], .watcher = watcher, .arg = arg, .result = result};
    s.known = tune_class_proofs(c, ctx->threads.count, ctx->target.isa, s.proofs);
    return s;
}

/* How much slower than the default a choice may be on a shape of its proof, as far as is known: log of a ratio of
 * times. */
static const double no_slower = 0.01;

/* Is more to be learned of a choice: whether it is slower than the default, or, if it is near the fastest, by how much
 * it is faster? */
static bool is_undecided(const tune_measurement *m, const tune_candidate *c, double fastest) {
    const tune_interval t = tune_candidate_interval(m, c);
    const double error = tune_median_error(m, c->blocks);
    const bool near = t.low <= fastest + no_slower;
    return t.low <= no_slower && (t.high >= no_slower || (near && 3 * error > fmax(-t.median, no_slower)));
}

/* Measures until no choice is undecided; it looks after some blocks, LOOKS times at most. The first look has all the
 * time there is: fewer blocks say nothing (tune_candidate_interval). */
static bool measure_proof(tune_search_state *s, tune_measurement *m, tune_candidate **list, int count, double share,
                          double until) {
    enum { LOOKS = 9 };
    const int blocks = s->effort.proof / 3 > TUNE_LEAST ? s->effort.proof / 3 : TUNE_LEAST;
    bool open = true, quiet = true;
    for (int look = 0; look < LOOKS && open && quiet && tune_now() < (look ? share : until); look++) {
        quiet = tune_measure(m, list, count, blocks, look ? share : until);
        double fastest = 0;
        for (int i = 0; i < count; i++)
            fastest = fmin(fastest, tune_median(list[i]));
        open = false;
        for (int i = 0; i < count; i++)
            open = open || is_undecided(m, list[i], fastest);
    }
    return quiet;
}

/* A choice on its way through the shapes of its proof. */
typedef struct proof {
    bool passed; /* so far */
    int blocks;
    int shapes; /* on which it is not the default: two at least, as one would stand for the whole class */
    tune_together together;
} proof;

/* All finalists that passed so far, on one more shape; false if it could not be measured. */
static bool prove_shape(tune_search_state *s, const tune_shape *shape, const tune_standing *finalist, proof *proofs,
                        int count, double share, double until) {
    tune_problem problem;
    tune_measurement m;
    char error[256];
    if (!tune_problem_make(s->ctx, shape, &problem, error))
        return false;
    tune_candidate candidate[TUNE_FINALISTS] = {0}, *list[TUNE_FINALISTS];
    int open = 0;
    bool made = tune_measurement_begin(&m, &problem);
    for (int i = 0; i < count && made; i++)
        if (proofs[i].passed) {
            made = tune_candidate_make(&m, &finalist[i].choice, &candidate[i]);
            if (made && !tune_is_default(&m, &candidate[i]))
                list[open++] = &candidate[i];
        }
    if (made && open && (!measure_proof(s, &m, list, open, share, until) || (tune_now() >= share && m.thrown > m.kept)))
        s->noisy = true;
    for (int i = 0; i < count; i++) {
        if (candidate[i].plan && made)
            tune_together_add(&proofs[i].together, &m, &candidate[i]);
        if (candidate[i].plan && made && !tune_is_default(&m, &candidate[i])) {
            const tune_interval t = tune_candidate_interval(&m, &candidate[i]);
            proofs[i].passed = t.high < no_slower;
            if (isinf(t.high)) /* so few blocks say nothing */
                tune_too_few(s, &m);
            proofs[i].blocks += candidate[i].blocks;
            proofs[i].shapes++;
        }
        proofs[i].passed = proofs[i].passed && made;
        tune_candidate_free(&candidate[i]);
    }
    tune_measurement_end(&m);
    tune_problem_free(&problem);
    return made;
}

/* Approximate seconds to measure the fewest blocks of `count` finalists, the default and its control on a shape. */
static double least_seconds(const tune_search_state *s, const tune_class *c, const tune_shape *shape, int count) {
    const double reserve = 1.2; /* blocks are thrown away, operands are made */
    const double one = s->result->seconds * tune_work(shape) / tune_work(&c->search);
    return reserve * 2 * TUNE_LEAST * (count + 2) * one * tune_executions(one);
}

/* As many of the finalists as there is time for on all shapes, one at least: of one there is something to say in a time
 * in which nothing could be said of three (linear, 257 to 1023 rows and 6144 and more channels: 34 % seen and not
 * proved). */
static int affordable(const tune_search_state *s, const tune_class *c, const tune_shape *shapes, int count,
                      double seconds) {
    for (; count > 1; count--) {
        double all = 0;
        for (int i = 0; i < s->effort.shapes; i++)
            all += least_seconds(s, c, &shapes[i], count);
        if (all <= seconds)
            break;
    }
    return count;
}

/* When a shape is to be done with: at its equal share of the time, or earlier if those after it need more. */
static double share_of(const tune_search_state *s, const tune_class *c, const tune_shape *shapes, int shape, int count,
                       double until) {
    const double now = tune_now();
    double later = 0;
    for (int i = shape + 1; i < s->effort.shapes; i++)
        later += least_seconds(s, c, &shapes[i], count);
    return fmin(now + (until - now) / (s->effort.shapes - shape), until - later);
}

void tune_prove(tune_search_state *s, const tune_class *c, const tune_standing *finalist, int count, double until) {
    tune_result *r = s->result;
    const tune_shape *shapes = s->proofs;
    proof proofs[TUNE_FINALISTS] = {0};
    int open = 0;
    if (s->known >= s->effort.shapes) { /* a class of one or two leaves nothing to prove it on */
        open = affordable(s, c, shapes, count, until - tune_now());
        s->cut = s->cut || open < count;
        count = open;
    }
    for (int i = 0; i < open; i++)
        proofs[i].passed = true;
    r->shapes[0] = '\0';
    for (int shape = 0; shape < s->effort.shapes && open && !tune_stopped; shape++) {
        char name[96];
        s->watcher(s->arg, "proof", -log(r->seen));
        const double share = share_of(s, c, shapes, shape, open, until);
        if (!prove_shape(s, &shapes[shape], finalist, proofs, count, share, until)) {
            r->verdict = VERDICT_large; /* what memory has no room for proves nothing */
            return;
        }
        open = 0;
        for (int i = 0; i < count; i++)
            open += proofs[i].passed;
        tune_shape_name(&shapes[shape], name, sizeof name);
        snprintf(r->shapes + strlen(r->shapes), sizeof r->shapes - strlen(r->shapes), "%s%s", shape ? "," : "", name);
    }
    double best = 0;
    for (int i = 0; i < count; i++) {
        double error;
        const tune_interval t = tune_together_ratio(&proofs[i].together, &error);
        if (!proofs[i].passed || proofs[i].shapes < 2 || tune_stopped || -t.median < fmax(log(1.02), 3 * error) ||
            t.median >= best)
            continue;
        best = t.median;
        r->verdict = VERDICT_tuned;
        r->choice = finalist[i].choice;
        r->blocks = proofs[i].blocks;
        r->gain = (tune_interval){exp(-t.median), exp(-t.high), exp(-t.low)};
    }
}
