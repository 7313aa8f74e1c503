/* Threads of callers, on both sides of a fork.
 *
 *   callers    8 threads with contexts, plans, tiers and workspaces of their own; 8 threads on one plan and one
 *              prepared mask; 8 threads in fovea_sdpa_f32(), whose first call is made by one of them
 *   forked     in the child of a process whose OpenMP threads have run: no deadlock, the same bits
 *
 * All results are compared with those of the scalar tier on one thread. Runs under ThreadSanitizer too, which wants a
 * build without OpenMP. Threads of the library: test_threads_parallel_for.c. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"
#include "mask_words.h"
#include "thread_pool.h"
#include "thread_problems.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 8 };

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
        problem_solve(&problems[rng_below(&r, PROBLEMS)], ctx, "a context of its own");
        problem_solve(&problems[rng_below(&r, PROBLEMS)], ctx, "a context of its own");
        fovea_context_destroy(ctx);
    }
    return NULL;
}

static fovea_attention_plan *shared_plans[PROBLEMS];
static mask_words shared_words[PROBLEMS]; /* boolean masks are prepared */

static void *call_shared(void *arg) {
    const int number = *(const int *)arg;
    wait_for_all(1);
    for (int round = 0; round < 4; round++)
        for (int n = 0; n < PROBLEMS; n++) {
            const problem *p = &problems[(n + (number & 1)) % PROBLEMS];
            const fovea_attention_plan *plan = shared_plans[p - problems];
            outputs *got = outputs_make(&p->c, p->c.layout);
            fovea_attention_args args = shared_words[p - problems].args;
            args.out = got->out;
            args.lse = got->lse;
            args.weights = got->weights;
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
    for (int n = 0; n < PROBLEMS; n++) {
        const fovea_attention_desc *d = &problems[n].c.desc;
        mask_words_make(&shared_words[n], ctx, d, &problems[n].in->args,
                        d->mask == FOVEA_MASK_BOOLEAN ? FOVEA_MASK_PREPARED : d->mask, FOVEA_MASK_BITS,
                        (int64_t[]){1, 1});
        test_check(fovea_attention_plan_create(ctx, &shared_words[n].desc, &shared_plans[n]) == FOVEA_OK, "plan: %s",
                   fovea_error_detail());
    }
    on_callers(call_shared);
    for (int n = 0; n < PROBLEMS; n++) {
        fovea_attention_plan_destroy(shared_plans[n]);
        mask_words_free(&shared_words[n]);
    }
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
    test_begin(argc, argv, "threads_callers", NULL);
    on_callers(call_sdpa); /* first, so that the default context is made by eight threads at once */
    problems_make();
    on_callers(call_with_own);
    thread_pool *p = thread_pool_create(7);
    fovea_context *pooled = context_of(FOVEA_ISA_BEST, 7, p), *own = context_of(FOVEA_ISA_BEST, 0, NULL);
    test_shared(own);
    test_shared(pooled);
    if (UNDER_TSAN)
        test_skip("forks: ThreadSanitizer allows no threads in a child");
    else
        test_forked(own);
    fovea_context_destroy(own);
    fovea_context_destroy(pooled);
    thread_pool_destroy(p);
    problems_free();
    return test_end();
}
