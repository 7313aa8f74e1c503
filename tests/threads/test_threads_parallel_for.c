/* Threads of the library: a caller's pools, work of the caller's own, and calls from within.
 *
 *   pools      a caller's parallel_for, run by a pool, serially, backwards, and by one that counts: each index exactly
 *              once, no more of them than threads; pools that call the library themselves
 *   own work   fovea_parallel(): each index once, calls of the library in a task, errors
 *   nested     from within an OpenMP region, or a task of a pool: no deadlock, the same bits
 *
 * All results are compared with those of the scalar tier on one thread. Runs under ThreadSanitizer too, which wants a
 * build without OpenMP. Threads of callers: test_threads_callers.c. */
#include "attention_case.h"
#include "thread_pool.h"
#include "thread_problems.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A parallel_for that checks what it is asked for: counts each index, and hands the work to another. */
typedef struct counter {
    fovea_parallel_for_fn real;
    void *pool;
    int64_t most, calls, shared; /* shared: calls for more than one task */
    atomic_int ran[64];
    void (*task)(void *arg, int64_t index);
    void *arg;
} counter;

static void counted_task(void *data, int64_t index) {
    counter *c = data;
    c->ran[index]++;
    c->task(c->arg, index);
}

static void counting_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    counter *c = data;
    if (!test_check(count >= 1 && count <= c->most, "parallel_for of %" PRId64 " with %" PRId64 " threads", count,
                    c->most))
        return;
    c->calls++;
    c->shared += count > 1;
    c->task = task;
    c->arg = arg;
    for (int i = 0; i < 64; i++)
        c->ran[i] = 0;
    c->real(c->pool, count, counted_task, c);
    for (int64_t i = 0; i < count; i++)
        test_check(c->ran[i] == 1, "index %" PRId64 " ran %d times", i, c->ran[i]);
}

static void test_pools(thread_pool *p) {
    const struct {
        const char *name;
        fovea_parallel_for_fn function;
    } kinds[] = {
        {"a pool", thread_pool_parallel_for}, {"serial", serial_parallel_for}, {"backwards", reverse_parallel_for}};
    for (int k = 0; k < 3; k++)
        for (int threads = 1; threads <= 33; threads += threads < 4 ? 1 : 29) {
            counter c = {.real = kinds[k].function, .pool = p, .most = threads};
            fovea_context_options options;
            fovea_context *ctx;
            fovea_context_options_init(&options);
            options.threads = threads;
            options.parallel_for = counting_parallel_for;
            options.pool = &c;
            if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
                continue;
            for (int n = 0; n < PROBLEMS; n++)
                problem_solve(&problems[n], ctx, kinds[k].name);
            test_check(threads == 1 || c.calls > 0, "%s of %d was never called", kinds[k].name, threads);
            c.shared = 0;
            problem_solve(&problems[SPLIT_WEIGHTS], ctx, kinds[k].name);
            test_check(threads == 1 || c.shared == 3,
                       "%d threads share %" PRId64 " of the passes over split rows with weights, not 3", threads,
                       c.shared);
            fovea_context_destroy(ctx);
        }
}

/* A pool whose threads do other work of the library between tasks, as work-stealing pools do. */
static fovea_context *helper;

static void helping_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)data;
    for (int64_t i = 0; i < count; i++) {
        task(arg, i);
        problem_solve(&problems[i % PROBLEMS], helper, "between tasks");
    }
}

static void solve_task(void *arg, int64_t index) {
    problem_solve(&problems[index % PROBLEMS], arg, "within a task of its pool");
}

static void test_nested(thread_pool *p, fovea_context *pooled) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = 4;
    options.parallel_for = helping_parallel_for;
    helper = pooled;
    if (test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail())) {
        for (int n = 0; n < PROBLEMS; n++)
            problem_solve(&problems[n], ctx, "a pool that calls the library");
        fovea_context_destroy(ctx);
    }
    thread_pool_parallel_for(p, 3 * PROBLEMS, solve_task, pooled);
    fovea_context *own = context_of(FOVEA_ISA_BEST, 0, NULL);
    thread_pool_parallel_for(p, 3 * PROBLEMS, solve_task, own);
#ifdef _OPENMP
    const fovea_context *both[] = {own, pooled};
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int n = 0; n < 4 * PROBLEMS; n++)
        problem_solve(&problems[n % PROBLEMS], both[n / PROBLEMS % 2], "within an OpenMP region");
#endif
    fovea_context_destroy(own);
}

/* ------------------------------------------------------------------------------------------------------ own work -- */

typedef struct own_work {
    const fovea_context *ctx;
    atomic_int runs[PROBLEMS + 20]; /* of each index */
} own_work;

/* Problems first, then indices that only count. */
static void do_own_work(void *arg, int64_t index) {
    own_work *w = arg;
    w->runs[index]++;
    if (index >= PROBLEMS)
        return;
    problem_solve(&problems[index], w->ctx, "in a task of fovea_parallel");
}

/* A pool of a kind that a call from within a task would lock: only the library itself can keep such calls away. */
static _Thread_local bool within;

static void strict_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)data;
    test_check(!within, "parallel_for is called from within its own task");
    const bool outer = within;
    within = true;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
    within = outer;
}

static void test_own_work(const fovea_context *ctx, const char *name) {
    static const int64_t counts[] = {0, 1, 2, PROBLEMS, PROBLEMS + 20};
    for (int k = 0; k < 5; k++) {
        own_work w = {.ctx = ctx};
        test_check(fovea_parallel(ctx, counts[k], do_own_work, &w) == FOVEA_OK, "fovea_parallel: %s",
                   fovea_error_detail());
        for (int64_t i = 0; i < PROBLEMS + 20; i++)
            test_check(w.runs[i] == (i < counts[k]), "%s: index %" PRId64 " of %" PRId64 " ran %d times", name, i,
                       counts[k], (int)w.runs[i]);
    }
    own_work w = {.ctx = ctx};
    test_check(fovea_parallel(NULL, 1, do_own_work, &w) == FOVEA_ERROR_NULL, "no context");
    test_check(fovea_parallel(ctx, 1, NULL, &w) == FOVEA_ERROR_NULL, "no task");
    test_check(fovea_parallel(ctx, -1, do_own_work, &w) == FOVEA_ERROR_ARGUMENT, "a negative count");
    test_check(w.runs[0] == 0, "a task ran in spite of an error");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_parallel_for", NULL);
    problems_make();
    thread_pool *p = thread_pool_create(7);
    fovea_context *pooled = context_of(FOVEA_ISA_BEST, 7, p), *own = context_of(FOVEA_ISA_BEST, 0, NULL);
    test_pools(p);
    test_nested(p, pooled);
    test_own_work(own, "own threads");
    test_own_work(pooled, "a pool");
    fovea_context_options options;
    fovea_context *strict;
    fovea_context_options_init(&options);
    options.threads = 3;
    options.parallel_for = strict_parallel_for;
    if (test_check(fovea_context_create(&options, &strict) == FOVEA_OK, "context: %s", fovea_error_detail())) {
        test_own_work(strict, "a strict pool");
        fovea_context_destroy(strict);
    }
    fovea_context_destroy(own);
    fovea_context_destroy(pooled);
    thread_pool_destroy(p);
    problems_free();
    return test_end();
}
