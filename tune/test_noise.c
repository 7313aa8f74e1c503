/* A tuner that is really disturbed; test_search.c simulates it.
 *
 * The planner's defaults are made bad on purpose (caches of a few KiB), so that there is something to win. The search
 * runs undisturbed, and again while processes compete for the CPUs in bursts. The two winners are then compared in
 * the same blocks: either they are as fast as each other, or the disturbed search says that it is too noisy or that
 * the default stays. It must never give something slower than the default. */
#include "machine.h"
#include "search.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t tune_stopped;

static void watch(void *arg, const char *what, double ratio) { (void)arg, (void)what, (void)ratio; }

/* Works and sleeps in turn, a few milliseconds each, until it is killed or the parent is gone. */
static void disturb(unsigned seed) {
    volatile double x = 1;
    rng r = rng_stream(seed, "disturb");
    while (getppid() != 1) {
        const double until = tune_now() + 1e-3 * (double)rng_between(&r, 1, 20);
        while (tune_now() < until)
            x = x * 1.0000001 + 1;
        nanosleep(&(struct timespec){.tv_nsec = 1000000 * (long)rng_between(&r, 1, 20)}, NULL);
    }
    _exit(0);
}

static fovea_context *context_with_tiny_caches(void) {
    fovea_context *ctx = test_context_untuned();
    ctx->cpu.l1d = 2 << 10;
    ctx->cpu.l2 = 16 << 10;
    return ctx;
}

static void test_neighbour(void) {
    enum { NEIGHBOURS = 2 };
    const double seconds = 6;
    fovea_context *ctx = context_with_tiny_caches();
    tune_shape shape;
    char error[256];
    if (!test_check(tune_shape_read("q_heads=2 q_len=192 kv_len=512 head_dim=64", &shape, error), "shape: %s", error))
        return;
    const tune_class c = tune_class_of(&shape, ctx->threads.count, ctx->target.isa);
    tune_result calm, disturbed;
    tune_search(ctx, &c, EFFORT_normal, seconds, watch, NULL, &calm);
    pid_t children[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++)
        if ((children[i] = fork()) == 0)
            disturb((unsigned)i);
    tune_search(ctx, &c, EFFORT_normal, seconds, watch, NULL, &disturbed);
    for (int i = 0; i < NEIGHBOURS; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    printf("alone: verdict %d, gain %.3f; disturbed: verdict %d, gain %.3f\n", (int)calm.verdict, calm.gain.median,
           (int)disturbed.verdict, disturbed.gain.median);
    if (calm.verdict != VERDICT_tuned || disturbed.verdict != VERDICT_tuned)
        test_skip("two winners to compare: this machine is busy, and the search said so");
    else {
        tune_problem problem;
        tune_measurement m;
        tune_candidate a, b, *both[] = {&a, &b};
        test_check(tune_problem_make(ctx, &c.search, &problem, error) && tune_measurement_begin(&m, &problem) &&
                       tune_candidate_make(&m, &calm.choice, &a) && tune_candidate_make(&m, &disturbed.choice, &b),
                   "cannot compare");
        tune_measure(&m, both, 2, 31, tune_now() + 10);
        const double x = tune_statistic(a.ratio, a.blocks).median, y = tune_statistic(b.ratio, b.blocks).median;
        test_check(y < 0, "the disturbed search chose what is slower than the default: %.3f", exp(y));
        test_check(fabs(x - y) < 0.05, "alone it is %.3f of the default's time, disturbed %.3f", exp(x), exp(y));
        tune_candidate_free(&a);
        tune_candidate_free(&b);
        tune_measurement_end(&m);
        tune_problem_free(&problem);
    }
    fovea_context_destroy(ctx);
    tune_problem_end();
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tune_noise", NULL);
    test_neighbour();
    return test_end();
}
