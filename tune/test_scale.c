/* What is found of a machine's caches, where what they really count as is known (simulation.h). */
#include "described.h"
#include "dispatch/dispatch.h"
#include "machine.h"
#include "scale.h"
#include "simulation.h"
#include "test.h"

volatile sig_atomic_t tune_stopped;

static void watch(void *arg, const char *what, double ratio) { (void)arg, (void)what, (void)ratio; }

/* What is found of the caches of two classes, the first of 128 channels, within a budget. */
static tune_scale find_scale(const fovea_context *ctx, const tune_class classes[2], const machine *m, const weather *w,
                             int seed, double budget) {
    tune_scale scale;
    const tune_instruments real = sim_enter(m, w, seed);
    tune_find_scale(ctx, classes, 2, EFFORT_normal, budget, watch, NULL, &scale);
    tune_instrument = real;
    return scale;
}

/* Caches of another size are found where they are faster on both classes; and nothing where they gain nothing or too
 * little, or there is no time. A class that loses by them keeps its sizes. */
static void test_scale(fovea_context *ctx, const tune_class *c) {
    const machine some = {.seconds = 0.002, .ruled = 0.98, .ruled_first = 0.94, .percent = 50};
    machine none = some, little = some, trap = some;
    none.ruled = none.ruled_first = 1;
    little.ruled = little.ruled_first = 0.998;
    tune_shape shape, proofs[TUNE_PROOFS];
    char error[256];
    test_check(tune_shape_read("q_heads=2 q_len=192 kv_len=512 head_dim=128", &shape, error), "shape: %s", error);
    const tune_class classes[2] = {tune_class_of(&shape, ctx->threads.count, ctx->target.isa), *c};
    const int known = tune_class_proofs(c, ctx->threads.count, ctx->target.isa, proofs);
    trap.ruled_first = 0.7;
    trap.trap = sim_rule(50);
    trap.trap_keys = proofs[1 % known].attention.kv_len;
    machine scattered = trap;
    scattered.trap_scatters = true; /* may be slower, as far as is known */
    for (int seed = 0; seed < SEEDS; seed++) {
        tune_scale s = find_scale(ctx, classes, &some, &weathers[0], seed, 60);
        test_check(s.known && s.percent == 50 && s.gain.median > 1.02 && s.shapes[0], "seed %d: %d %%, %.3f", seed,
                   (int)s.percent, s.gain.median);
        test_check(s.slower[0].median <= 0 && s.slower[1].median <= 0, "seed %d: a class seems slower", seed);
        tune_scale_free(&s);
        s = find_scale(ctx, classes, &none, &weathers[0], seed, 60);
        test_check(s.known && s.percent == 100, "seed %d: what gains nothing: %d %%", seed, (int)s.percent);
        tune_scale_free(&s);
        s = find_scale(ctx, classes, &little, &weathers[0], seed, 60);
        test_check(s.percent == 100, "seed %d: what gains 0.2 %%: %d %%", seed, (int)s.percent);
        tune_scale_free(&s);
        s = find_scale(ctx, classes, &some, &weathers[0], seed, 0.01);
        test_check(!s.known && s.percent == 100, "seed %d: without time: %d %%", seed, (int)s.percent);
        tune_scale_free(&s);
        for (int i = 0; i < WEATHERS; i++) {
            s = find_scale(ctx, classes, &none, &weathers[i], seed, 60);
            test_check(s.percent == 100, "seed %d, %s: what gains nothing is stored", seed, weathers[i].name);
            tune_scale_free(&s);
        }
        s = find_scale(ctx, classes, &trap, &weathers[0], seed, 60);
        test_check(s.percent == 50 && s.slower[1].median > 0 && s.slower[0].median <= 0,
                   "seed %d: a class that loses: %d %%, %.3f", seed, (int)s.percent, s.slower[1].median);
        tune_scale uneven = find_scale(ctx, classes, &scattered, &weathers[0], seed, 60);
        test_check(uneven.percent == 50 && uneven.slower[1].median > 0 && uneven.slower[1].median < 0.01,
                   "seed %d: a class that may lose: %d %%, %.3f", seed, (int)uneven.percent, uneven.slower[1].median);
        tune_scale_free(&uneven);
        tune_result results[2] = {{.verdict = VERDICT_default}, {.verdict = VERDICT_default}};
        ctx->tuning.cache_scale = s.percent;
        tune_keep_sizes(ctx, &s, classes, 2, results);
        tune_result tuned[2] = {{.verdict = VERDICT_tuned, .blocks = 99}, {.verdict = VERDICT_tuned, .blocks = 99}};
        tune_keep_sizes(ctx, &s, classes, 2, tuned);
        test_check(tuned[0].blocks == 99 && tuned[1].blocks == 99, "seed %d: a class that was tuned is overwritten",
                   seed);
        tune_problem problem;
        if (test_check(tune_problem_make(ctx, &c->search, &problem, error), "problem: %s", error)) {
            const tune_choice usual = {.cache_scale = 100};
            tune_plan *kept = tune_problem_plan(&problem, &results[1].choice),
                      *want = tune_problem_plan(&problem, &usual);
            test_check(results[0].verdict == VERDICT_default && results[1].verdict == VERDICT_tuned &&
                           tune_same_choice(&kept->made, &want->made),
                       "seed %d: a class that loses does not keep its sizes", seed);
            tune_plan_free(kept);
            tune_plan_free(want);
            tune_problem_free(&problem);
        }
        ctx->tuning.cache_scale = 100;
        tune_scale_free(&s);
    }
}

/* Executions that take so long that a class alone takes more than the budget: no second one is begun. */
static void test_budget(const fovea_context *ctx, const tune_class *c) {
    enum { MANY = 12, WARM_UP = 3, OF_A_BLOCK = 2 * (TUNE_TOGETHER + 2) };
    const double budget = 2;
    const machine slow = {.seconds = 1, .ruled = 1, .ruled_first = 1};
    tune_class classes[MANY];
    tune_scale scale;
    for (int i = 0; i < MANY; i++)
        classes[i] = *c;
    const tune_instruments real = sim_enter(&slow, &weathers[0], 0);
    const double begin = tune_now();
    tune_find_scale(ctx, classes, MANY, EFFORT_normal, budget, watch, NULL, &scale);
    const double took = tune_now() - begin, most = budget + 1.1 * slow.seconds * (WARM_UP + OF_A_BLOCK);
    tune_instrument = real;
    test_check(!scale.known && scale.percent == 100 && took < most, "%.0f s of a simulated clock for a budget of %.0f",
               took, budget);
    tune_scale_free(&scale);
}

int main(int argc, char **argv) {
    test_option options[] = {MACHINE_OPTION, {NULL, NULL, NULL, NULL}};
    machine_test_begin(argc, argv, "tune_scale", options);
    fovea_context *ctx = test_context_untuned();
    tune_shape shape;
    char error[256];
    ctx->cpu.l1d = 16 << 10; /* so that tiles are others with other caches, whatever this CPU has */
    ctx->cpu.l2 = 1 << 20;
    if (test_check(tune_shape_read("q_heads=2 q_len=192 kv_len=512 head_dim=64", &shape, error), "shape: %s", error)) {
        const tune_class c = tune_class_of(&shape, ctx->threads.count, ctx->target.isa);
        test_scale(ctx, &c);
        test_budget(ctx, &c);
    }
    fovea_context_destroy(ctx);
    tune_problem_end();
    return test_end();
}
