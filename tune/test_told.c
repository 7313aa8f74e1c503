/* A machine whose caches, or whose thresholds, are told wrongly (simulation.h): a run over the default classes, in half a
 * minute of its clock, comes back to within 2 % of the best of all candidates. */
#include "candidates.h"
#include "described.h"
#include "machine.h"
#include "search.h"
#include "simulation.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

volatile sig_atomic_t tune_stopped;

static void watch(void *arg, const char *what, double ratio) { (void)arg, (void)what, (void)ratio; }
static void ignore(void *arg, int index, const tune_result *result, double seconds) {
    (void)arg, (void)index, (void)result, (void)seconds;
}

static double cost_of(tune_problem *problem, const tune_choice *choice) {
    const tune_choice made = sim_made(problem, choice);
    return sim_cost_told(problem, &made);
}

/* What the best candidate costs: from a choice on, the cheapest neighbour, as long as there is one. */
static double best_cost(tune_problem *problem, tune_choice from) {
    const tune_choice none = {0};
    tune_choice list[TUNE_CANDIDATES];
    tune_plan *base = tune_problem_plan(problem, &none);
    double best = cost_of(problem, &from);
    for (bool moved = true; moved;) {
        moved = false;
        for (int changes = 1; changes <= 2 && !moved; changes++) {
            const tune_choice start = from;
            const int n = tune_list(problem, &start, changes, base, list);
            for (int i = 0; i < n; i++) {
                const double cost = cost_of(problem, &list[i]);
                if (cost < best - 1e-9) {
                    best = cost;
                    from = list[i];
                    moved = true;
                }
            }
        }
    }
    tune_plan_free(base);
    return best;
}

static void check_class(fovea_context *ctx, const tune_class *c, const tune_result *r, int64_t percent,
                        const char *what, double *worst) {
    tune_problem problem;
    char error[256];
    const tune_choice none = {0};
    if (!test_check(tune_problem_make(ctx, &c->search, &problem, error), "problem: %s", error))
        return;
    const double told = cost_of(&problem, &none);
    double best = INFINITY;
    for (int i = -1; i < TUNE_SCALES; i++) {
        const tune_choice scaled = {.cache_scale = i < 0 ? 100 : tune_scales[i]};
        best = fmin(best, best_cost(&problem, scaled));
    }
    ctx->tuning.cache_scale = percent;
    const double tuned = cost_of(&problem, r->verdict == VERDICT_tuned ? &r->choice : &none);
    ctx->tuning.cache_scale = 100;
    worst[0] = fmax(worst[0], told / best);
    worst[1] = fmax(worst[1], tuned / best);
    test_check(best < 1.045, "%s, %s: no candidate comes nearer than %.3f", what, c->name, best);
    test_check(tuned <= 1.02 * best, "%s, %s: %.3f of the best, the default %.3f", what, c->name, tuned / best,
               told / best);
    tune_problem_free(&problem);
}

static void check_told(fovea_context *ctx, const char *what, const machine *m, int64_t l1d, int64_t l2) {
    const tune_options options = {.effort = EFFORT_normal};
    const double budget = 30;
    const fv_cpu cpu = ctx->cpu;
    tune_class *classes;
    tune_scale scale;
    double worst[2] = {0, 0};
    int tuned = 0;
    ctx->cpu.l1d = l1d;
    ctx->cpu.l2 = l2;
    const int count = tune_classes(&options, ctx->threads.count, ctx->target.isa, &classes);
    tune_result *results = calloc((size_t)count, sizeof *results);
    const tune_instruments real = sim_enter(m, &weathers[0], 0);
    const double begin = tune_now();
    tune_find_scale(ctx, classes, count, EFFORT_normal, budget, watch, NULL, &scale);
    ctx->tuning.cache_scale = scale.percent;
    tune_search_all(ctx, classes, count, EFFORT_normal, budget - (tune_now() - begin), watch, ignore, NULL, results);
    tune_keep_sizes(ctx, &scale, classes, count, results);
    const double seconds = tune_now() - begin;
    ctx->tuning.cache_scale = 100;
    for (int i = 0; i < count; i++) {
        tuned += results[i].verdict == VERDICT_tuned;
        check_class(ctx, &classes[i], &results[i], scale.percent, what, worst);
    }
    tune_instrument = real;
    test_check(seconds < 1.05 * budget, "%s: %.1f s", what, seconds);
    printf(
        "%s: %.1f s, cache sizes %d %%, %d of %d classes tuned; the worst default takes %.3f of the best's time, the "
        "worst choice %.3f\n",
        what, seconds, (int)scale.percent, tuned, count, worst[0], worst[1]);
    ctx->cpu = cpu;
    tune_scale_free(&scale);
    free(results);
    free(classes);
}

int main(int argc, char **argv) {
    test_option options[] = {MACHINE_OPTION, {NULL, NULL, NULL, NULL}};
    machine_test_begin(argc, argv, "tune_told", options);
    fovea_context *ctx = test_context_untuned();
    const int64_t l1d = ctx->cpu.l1d, l2 = ctx->cpu.l2;
    machine m = {.seconds = 0.002, .told = true, .l1d = l1d, .l2 = l2};
    check_told(ctx, "an eighth of the caches", &m, l1d / 8, l2 / 8);
    check_told(ctx, "four times the caches", &m, 4 * l1d, 4 * l2);
    m.constants.knob[FV_ATTENTION_KNOB_copy_rows].number = 64;
    m.constants.knob[FV_ATTENTION_KNOB_few_rows].number = -1;
    check_told(ctx, "thresholds", &m, l1d, l2);
    fovea_context_destroy(ctx);
    tune_problem_end();
    return test_end();
}
