/* Threads, on both sides of the library: callers' and its own.
 *
 *   callers    8 threads with contexts, plans, tiers and workspaces of their own; 8 threads on one plan; 8 threads in
 *              fovea_sdpa_f32(), whose first call is made by one of them
 *   pools      a caller's parallel_for, run by a pool, serially, backwards, and by one that counts: each index exactly
 *              once, no more of them than threads; pools that call the library themselves
 *   own work   fovea_parallel(): each index once, calls of the library in a task, errors
 *   nested     from within an OpenMP region, or a task of a pool: no deadlock, the same bits
 *   forked     in the child of a process whose OpenMP threads have run: likewise
 *
 * All results are compared with those of the scalar tier on one thread. Runs under ThreadSanitizer too, which wants a
 * build without OpenMP. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"
#include "pool.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { CALLERS = 8, PROBLEMS = 10, SPLIT_WEIGHTS = 2 };

/* A problem with its answer, read by many threads at once. */
typedef struct problem {
    attention_case c;
    inputs *in;
    outputs *want;
} problem;

static problem problems[PROBLEMS];

static void make_problems(void) {
    fovea_context *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    for (int n = 0; n < PROBLEMS; n++) {
        char name[32];
        snprintf(name, sizeof name, "threads %d", n);
        rng r = rng_stream(test_seed(), name);
        problem *p = &problems[n];
        do
            p->c = case_random(&r, 300000);
        while (p->c.desc.kv_len < 100);
        if (n == 0) /* rows that are split over segments */
            p->c = case_plain(1, 4, 2, 1, 2000, 16, 16);
        if (n == 1) /* many blocks of rows */
            p->c = case_plain(2, 6, 2, 120, 120, 16, 16);
        if (n == SPLIT_WEIGHTS) {
            p->c = case_plain(1, 4, 2, 1, 2000, 16, 16);
            p->c.weights = true;
        }
        p->in = inputs_make(&p->c, &r);
        p->want = outputs_make(&p->c, p->c.layout);
        case_run(scalar, NULL, &p->c, p->in, p->want);
    }
    fovea_context_destroy(scalar);
}

static void free_problems(void) {
    for (int n = 0; n < PROBLEMS; n++) {
        inputs_free(problems[n].in);
        outputs_free(problems[n].want);
    }
}

/* Solves a problem with a context and compares. */
static void solve(const problem *p, const fovea_context *ctx, const char *what) {
    outputs *got = outputs_make(&p->c, p->c.layout);
    if (case_run(ctx, NULL, &p->c, p->in, got))
        outputs_same(got, p->want, "%s, problem %d", what, (int)(p - problems));
    outputs_free(got);
}

/* A barrier that every pthread implementation has, so that all callers start at once. */
static atomic_int arrived;

static void wait_for_all(int round) {
    arrived++;
    while (arrived < CALLERS * round)
        sched_yield();
}

/* Runs body(number) on 8 threads. */
static void on_callers(void *(*body)(void *)) {
    pthread_t threads[CALLERS];
    static int numbers[CALLERS];
    arrived = 0;
    for (int i = 0; i < CALLERS; i++) {
        numbers[i] = i;
        if (!test_check(pthread_create(&threads[i], NULL, body, &numbers[i]) == 0, "pthread_create"))
            exit(test_end());
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

/* ------------------------------------------------------------------------------------------------------ callers -- */

static void *call_sdpa(void *arg) {
    static const int64_t shapes[][6] = {
        {1, 2, 50, 50, 16, 16}, {2, 4, 1, 700, 24, 8}, {1, 1, 3, 300, 40, 40}, {1, 8, 65, 64, 8, 8}};
    const int number = *(const int *)arg;
    fovea_context *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    wait_for_all(1);
    for (int round = 0; round < 12; round++) {
        const int64_t *s = shapes[(number + round) % 4];
        attention_case c = case_plain(s[0], s[1], s[1], s[2], s[3], s[4], s[5]);
        c.lse = false;
        c.desc.causal = (fovea_causal)((number / 4 + round) % 3);
        rng r = rng_stream(test_seed(), "sdpa");
        inputs *in = inputs_make(&c, &r);
        outputs *got = outputs_make(&c, LAYOUT_BHTD), *want = outputs_make(&c, LAYOUT_BHTD);
        fovea_status status = fovea_sdpa_f32(in->args.q.data, in->args.k.data, in->args.v.data, got->out.data, s[0],
                                             s[1], s[1], s[2], s[3], s[4], s[5], c.desc.causal);
        test_check(status == FOVEA_OK, "fovea_sdpa_f32: %s", fovea_error_detail());
        case_run(scalar, NULL, &c, in, want);
        outputs_same(got, want, "fovea_sdpa_f32, thread %d, round %d", number, round);
        inputs_free(in);
        outputs_free(got);
        outputs_free(want);
    }
    fovea_context_destroy(scalar);
    return NULL;
}

/* Contexts and plans made, used and destroyed while others do the same, with all tiers at once. */
static void *call_with_own(void *arg) {
    const int number = *(const int *)arg;
    char name[32];
    snprintf(name, sizeof name, "caller %d", number);
    rng r = rng_stream(test_seed(), name);
    for (int64_t round = 0, rounds = test_scaled(30); round < rounds; round++) {
        fovea_isa isa = (fovea_isa)rng_below(&r, 4);
        fovea_context *ctx = context_of(isa, (int)rng_below(&r, 3), NULL);
        solve(&problems[rng_below(&r, PROBLEMS)], ctx, "a context of its own");
        solve(&problems[rng_below(&r, PROBLEMS)], ctx, "a context of its own");
        fovea_context_destroy(ctx);
    }
    return NULL;
}

static fovea_attention_plan *shared_plans[PROBLEMS];

static void *call_shared(void *arg) {
    const int number = *(const int *)arg;
    wait_for_all(1);
    for (int round = 0; round < 4; round++)
        for (int n = 0; n < PROBLEMS; n++) {
            const problem *p = &problems[(n + (number & 1)) % PROBLEMS];
            const fovea_attention_plan *plan = shared_plans[p - problems];
            outputs *got = outputs_make(&p->c, p->c.layout);
            fovea_attention_args args = case_args(p->in, got);
            size_t size = fovea_attention_plan_workspace_size(plan);
            void *workspace = number & 2 ? NULL : must_alloc((int64_t)size, 1);
            fovea_status status = fovea_attention_execute(plan, &args, workspace, workspace ? size : 0);
            test_check(status == FOVEA_OK, "a shared plan: %s", fovea_error_detail());
            outputs_same(got, p->want, "a shared plan, thread %d, problem %d", number, (int)(p - problems));
            free(workspace);
            outputs_free(got);
        }
    return NULL;
}

static void test_shared(fovea_context *ctx) {
    for (int n = 0; n < PROBLEMS; n++)
        test_check(fovea_attention_plan_create(ctx, &problems[n].c.desc, &shared_plans[n]) == FOVEA_OK, "plan: %s",
                   fovea_error_detail());
    on_callers(call_shared);
    for (int n = 0; n < PROBLEMS; n++)
        fovea_attention_plan_destroy(shared_plans[n]);
}

/* -------------------------------------------------------------------------------------------------------- pools -- */

/* A parallel_for that checks what it is asked for: counts each index, and hands the work to another. */
typedef struct counter {
    fovea_parallel_for real;
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

static void test_pools(pool *p) {
    const struct {
        const char *name;
        fovea_parallel_for function;
    } kinds[] = {{"a pool", pool_parallel_for}, {"serial", serial_parallel_for}, {"backwards", reverse_parallel_for}};
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
                solve(&problems[n], ctx, kinds[k].name);
            test_check(threads == 1 || c.calls > 0, "%s of %d was never called", kinds[k].name, threads);
            c.shared = 0;
            solve(&problems[SPLIT_WEIGHTS], ctx, kinds[k].name);
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
        solve(&problems[i % PROBLEMS], helper, "between tasks");
    }
}

static void solve_task(void *arg, int64_t index) {
    solve(&problems[index % PROBLEMS], arg, "within a task of its pool");
}

static void test_nested(pool *p, fovea_context *pooled) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = 4;
    options.parallel_for = helping_parallel_for;
    helper = pooled;
    if (test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail())) {
        for (int n = 0; n < PROBLEMS; n++)
            solve(&problems[n], ctx, "a pool that calls the library");
        fovea_context_destroy(ctx);
    }
    pool_parallel_for(p, 3 * PROBLEMS, solve_task, pooled);
    fovea_context *own = context_of(FOVEA_ISA_BEST, 0, NULL);
    pool_parallel_for(p, 3 * PROBLEMS, solve_task, own);
#ifdef _OPENMP
    const fovea_context *both[] = {own, pooled};
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int n = 0; n < 4 * PROBLEMS; n++)
        solve(&problems[n % PROBLEMS], both[n / PROBLEMS % 2], "within an OpenMP region");
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
    solve(&problems[index], w->ctx, "in a task of fovea_parallel");
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

/* -------------------------------------------------------------------------------------------------------- forked -- */

/* By a context, and by the default one that fovea_sdpa_f32() keeps. */
static bool solve_both_ways(const fovea_context *ctx, const char *what) {
    const problem *p = &problems[1];
    const fovea_attention_desc *d = &p->c.desc;
    outputs *got = outputs_make(&p->c, p->c.layout);
    bool same = case_run(ctx, NULL, &p->c, p->in, got) && outputs_same(got, p->want, "%s", what);
    outputs_clear(got);
    fovea_status status =
        fovea_sdpa_f32(p->in->args.q.data, p->in->args.k.data, p->in->args.v.data, got->out.data, d->batch, d->q_heads,
                       d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->value_dim, d->causal);
    same = test_check(status == FOVEA_OK, "fovea_sdpa_f32 %s: %s", what, fovea_error_detail()) && same;
    same = test_same(got->out.data, p->want->out.data, d->batch * d->q_heads * d->q_len * d->value_dim,
                     "fovea_sdpa_f32 %s", what) &&
           same;
    outputs_free(got);
    return same;
}

static void check_child(pid_t child, const char *what) {
    int status = -1;
    const pid_t ended = waitpid(child, &status, 0);
    test_check(child > 0 && ended == child && status == 0, "%s: status 0x%x", what, (unsigned)status);
}

static bool call_small_sdpa(void) {
    float q[8] = {0}, out[8];
    return fovea_sdpa_f32(q, q, q, out, 1, 1, 1, 2, 2, 4, 4, FOVEA_CAUSAL_NONE) == FOVEA_OK;
}

static atomic_int small_calls;
static atomic_bool calls_enough;

static void *keep_calling(void *arg) {
    while (!calls_enough)
        small_calls += call_small_sdpa();
    return arg;
}

static void test_forked(const fovea_context *ctx) {
    solve_both_ways(ctx, "before a fork");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(!solve_both_ways(ctx, "in a forked child"));
    }
    check_child(child, "a forked child");

    /* While another thread is in the one call, whose lock the child must not find taken. Two would meet there at times,
     * and take memory for another plan: a child may find that lock taken under a sanitizer, whose malloc no fork waits
     * for. */
    pthread_t caller;
    test_check(pthread_create(&caller, NULL, keep_calling, NULL) == 0, "pthread_create");
    while (small_calls < 100) /* until it needs no memory any more */
        sched_yield();
    for (int i = 0; i < 100; i++) {
        child = fork();
        if (child == 0) {
            alarm(60);
            _exit(!call_small_sdpa());
        }
        check_child(child, "a child forked beside a caller");
    }
    calls_enough = true;
    pthread_join(caller, NULL);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads", NULL);
    on_callers(call_sdpa); /* first, so that the default context is made by eight threads at once */
    make_problems();
    on_callers(call_with_own);
    pool *p = pool_create(7);
    fovea_context *pooled = context_of(FOVEA_ISA_BEST, 7, p), *own = context_of(FOVEA_ISA_BEST, 0, NULL);
    test_shared(own);
    test_shared(pooled);
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
    test_forked(own);
    fovea_context_destroy(own);
    fovea_context_destroy(pooled);
    pool_destroy(p);
    free_problems();
    return test_end();
}
