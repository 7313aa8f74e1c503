/* A machine whose caches, thresholds or sources are told wrongly (simulation.h): a run over the default classes, in
 * half a minute of its clock, comes back to within 2 % of the best of all candidates, where that may be stored. */
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

/* The best candidate: from a choice on, the cheapest neighbour, as long as there is one. Returns what it costs. */
static double best_cost(tune_problem *problem, tune_choice *from) {
    const tune_choice none = {0};
    tune_choice list[TUNE_CANDIDATES];
    tune_plan *base = tune_problem_plan(problem, &none);
    double best = cost_of(problem, from);
    for (bool moved = true; moved;) {
        moved = false;
        for (int changes = 1; changes <= 2 && !moved; changes++) {
            const tune_choice start = *from;
            const int n = tune_list(problem, &start, changes, base, list);
            for (int i = 0; i < n; i++) {
                const double cost = cost_of(problem, &list[i]);
                if (cost < best - 1e-9) {
                    best = cost;
                    *from = list[i];
                    moved = true;
                }
            }
        }
    }
    tune_plan_free(base);
    return best;
}

/* May a choice be stored: is it another plan than the default on two shapes of the proof, on average 2 % faster, and
 * slower on none? */
static bool may_be_stored(const fovea_context *ctx, const tune_class *c, const tune_choice *choice) {
    tune_shape shapes[TUNE_PROOFS];
    tune_problem problem;
    const tune_choice none = {0};
    const int count = tune_class_proofs(c, ctx->threads.count, ctx->target.isa, shapes);
    int changed = 0;
    double sum = 0, slowest = 0;
    for (int i = 0; i < count; i++) {
        sim_problem(ctx, &shapes[i], &problem);
        const tune_choice made = sim_made(&problem, choice), usual = sim_made(&problem, &none);
        const double ratio = log(sim_cost_told(&problem, &made) / sim_cost_told(&problem, &usual));
        changed += !tune_same_choice(&made, &usual);
        sum += ratio;
        slowest = fmax(slowest, ratio);
        tune_problem_free(&problem);
    }
    return changed >= 2 && slowest < 0.005 && sum / count < -log(1.025);
}

/* The classes of a run. */
typedef struct tally {
    double usual, tuned; /* the worst default, and the worst that is used: relative to the best */
    int kept;            /* classes whose best may not be stored */
} tally;

static void check_class(const fovea_context *ctx, const tune_class *c, const tune_result *r, const char *what,
                        tally *t) {
    tune_problem problem;
    const tune_choice none = {0};
    tune_choice best[2] = {{.knob = {{NULL, 0}}}};
    sim_problem(ctx, &c->search, &problem);
    const fv_tuning_operation *o = fv_tuning_operations[problem.operation];
    const int scale = o->knobs - 1; /* cache_scale, on which all sizes depend */
    for (int i = 0; o->knob[scale].tried[i]; i++) {
        tune_choice scaled = {0};
        scaled.knob[scale].number = o->knob[scale].tried[i];
        if (cost_of(&problem, &scaled) < cost_of(&problem, &best[1]))
            best[1] = scaled;
    }
    const double usual = cost_of(&problem, &none),
                 tuned = cost_of(&problem, r->verdict == VERDICT_tuned ? &r->choice : &none);
    const double costs[2] = {best_cost(&problem, &best[0]), best_cost(&problem, &best[1])};
    const int at = costs[1] < costs[0];
    tune_problem_free(&problem);
    test_check(costs[at] < 1.045, "%s, %s: no candidate comes nearer than %.3f", what, c->name, costs[at]);
    t->usual = fmax(t->usual, usual / costs[at]);
    if (tuned > 1.02 * costs[at] && !may_be_stored(ctx, c, &best[at])) {
        t->kept++;
        return;
    }
    t->tuned = fmax(t->tuned, tuned / costs[at]);
    test_check(tuned <= 1.02 * costs[at], "%s, %s: %.3f of the best, the default %.3f: %s, %.3f seen", what, c->name,
               tuned / costs[at], usual / costs[at], tune_verdicts[r->verdict], r->seen);
}

static void check_told(fovea_context *ctx, const char *what, double caches, const fv_attention_choice *constants) {
    const tune_options options = {.effort = EFFORT_normal};
    const double budget = 45;
    const fv_cpu cpu = ctx->cpu;
    machine m = {.seconds = 0.002, .told = true, .l1d = cpu.l1d, .l2 = cpu.l2};
    tune_class *classes;
    tally t = {0};
    int tuned = 0;
    fv_tuning_of_choice(FV_TUNING_attention_f32, constants, m.constants.knob);
    ctx->cpu.l1d = (int64_t)(caches * (double)cpu.l1d);
    ctx->cpu.l2 = (int64_t)(caches * (double)cpu.l2);
    const int count = tune_classes(&options, ctx->threads.count, ctx->target.isa, &classes);
    tune_result *results = calloc((size_t)count, sizeof *results);
    const tune_instruments real = sim_enter(&m, &weathers[0], 0);
    const double begin = tune_now();
    tune_search_all(ctx, classes, count, EFFORT_normal, budget, watch, ignore, NULL, results);
    const double seconds = tune_now() - begin;
    for (int i = 0; i < count; i++) {
        tuned += results[i].verdict == VERDICT_tuned;
        check_class(ctx, &classes[i], &results[i], what, &t);
    }
    tune_instrument = real;
    test_check(seconds < 1.05 * budget, "%s: %.1f s", what, seconds);
    test_check((tuned > 0 || t.usual <= 1.02) && t.kept * 4 <= count, "%s: %d of %d classes tuned, %d may not be", what,
               tuned, count, t.kept);
    printf("%s: %.1f s, %d of %d classes tuned, %d have a best that may not be stored; the worst default takes %.3f of "
           "the best's time, the worst choice %.3f\n",
           what, seconds, tuned, count, t.kept, t.usual, t.tuned);
    ctx->cpu = cpu;
    free(results);
    free(classes);
}

int main(int argc, char **argv) {
    static const struct {
        const char *what;
        double caches;
        fv_attention_choice constants;
    } told[] = {{"an eighth of the caches", 0.125, {.k = 0}},
                {"four times the caches", 4, {.k = 0}},
                {"thresholds of copies and few rows", 1, {.copy_rows = 64, .few_rows = -1, .amx_rows = 1}},
                {"a threshold of streams", 1, {.stream_rows = -1}},
                {"sources", 1, {.k = 1 + FV_KEYS_floats, .v = 1 + FV_VALUES_floats}}};
    test_option options[] = {MACHINE_OPTION, {NULL, NULL, NULL, NULL}};
    machine_test_begin(argc, argv, "tune_told", options);
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        check_told(ctx, told[i].what, told[i].caches, &told[i].constants);
    fovea_context_destroy(ctx);
    tune_problem_end();
    return test_end();
}
