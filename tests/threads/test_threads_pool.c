/* The library's own pool (FOVEA_THREADS_POOL).
 *
 *   bits       problems on 1, 2, 3 and 7 threads, in tasks of the pool, within an OpenMP region, by eight callers of
 *              one context and of contexts of their own
 *   jobs       many short ones, with pauses in which threads fall asleep: each index once; threads that went to another
 *              CPU than the caller's may use all of them again
 *   threads    made by the first call that wants them, joined with the context, whether they spin or sleep; all signals
 *              of the program's are blocked in them; hundreds of contexts; fewer where pthread_create() fails
 *   forks      a child makes threads of its own, also if forked during a call, and destroys its parent's context
 *
 * Results are compared with those of the scalar tier on one thread. Runs under ThreadSanitizer, too. Rounding modes:
 * test_fp_modes.c; a pool of the caller's: test_threads_object.c; hooks:
 * test_threads_hooks.c; options: test_threads_backend.c. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, pthread_sigmask */
#include "context/context.h"
#include "thread_creations.h"
#include "thread_problems.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Some of the problems, those that are sure to be shared among them. */
static void solve_few(const fovea_context *ctx, const char *what) {
    for (int n = 0; n <= MASKED; n++)
        problem_solve(&problems[n], ctx, what);
}

/* ---------------------------------------------------------------------------------------------------------- bits -- */

static void solve_task(void *arg, int64_t index) {
    problem_solve(&problems[index % PROBLEMS], arg, "in a task of the pool");
}

static void test_bits(void) {
    static const int counts[] = {1, 2, 3, 7};
    for (int i = 0; i < 4; i++) {
        fovea_context *ctx = context_with_pool(counts[i]);
        for (int n = 0; n < PROBLEMS; n++)
            problem_solve(&problems[n], ctx, "the library's pool");
        test_check(fovea_parallel(ctx, PROBLEMS, solve_task, ctx) == FOVEA_OK, "%s", fovea_error_detail());
        fovea_context_destroy(ctx);
    }
#ifdef _OPENMP
    fovea_context *ctx = context_with_pool(3);
    const int before = creations;
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int n = 0; n < 8; n++)
        problem_solve(&problems[n], ctx, "within an OpenMP region");
    test_check(creations == before, "a call from within an OpenMP region makes threads");
    fovea_context_destroy(ctx);
#endif
}

enum { CALLERS = 8 };

static void *call_shared(void *ctx) {
    for (int64_t round = 0, rounds = test_scaled(8); round < rounds; round++)
        solve_few(ctx, "one context, many callers");
    return NULL;
}

static void *call_own(void *unused) {
    fovea_context *ctx = context_with_pool(3);
    solve_few(ctx, "a context for each caller");
    fovea_context_destroy(ctx);
    return unused;
}

static void on_callers(void *(*body)(void *), void *arg) {
    pthread_t threads[CALLERS];
    int made = 0;
    while (made < CALLERS && pthread_create(&threads[made], NULL, body, arg) == 0)
        made++;
    test_check(made == CALLERS, "pthread_create");
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}

static void test_callers(void) {
    fovea_context *ctx = context_with_pool(3);
    on_callers(call_shared, ctx);
    fovea_context_destroy(ctx);
    on_callers(call_own, NULL);
}

/* ---------------------------------------------------------------------------------------------------------- jobs -- */

enum { MOST = 7 };

static atomic_int ran[MOST];

static void count_task(void *arg, int64_t index) {
    (void)arg;
    ran[index]++;
}

typedef struct job_threads {
    pthread_t caller;
    int all;          /* CPUs */
    atomic_int bound; /* tasks on other threads that may not use all */
    atomic_int cpu;   /* of one of them */
} job_threads;

static void count_bound_task(void *arg, int64_t index) {
    job_threads *t = arg;
    ran[index]++;
    if (pthread_equal(pthread_self(), t->caller))
        return;
    t->bound += fv_cpu_affinity() != t->all;
    t->cpu = thread_cpu();
}

/* The jobs' sizes change; now and then threads fall asleep between two. */
static void *run_jobs(void *unused) {
    fovea_context *ctx = context_with_pool(MOST);
    job_threads threads = {.caller = pthread_self(), .all = fv_cpu_affinity()};
    const fv_work work = {.task = count_bound_task, .arg = &threads};
    const int64_t jobs = test_scaled(40000);
    int64_t wrong = 0;
    for (int64_t i = 0; i < jobs; i++) {
        const int64_t count = 2 + i % (MOST - 1);
        fv_parallel(&ctx->threads, count, &work);
        for (int64_t k = 0; k < MOST; k++)
            wrong += atomic_exchange(&ran[k], 0) != (k < count);
        if (i % 200 == 199) { /* all threads are there */
            nanosleep(&(struct timespec){0, 100000}, NULL);
            thread_run_on(threads.cpu); /* where one of them wakes up */
        }
    }
    test_check(wrong == 0, "of %" PRId64 " jobs, %" PRId64 " indices are not run once", jobs, wrong);
    test_check(threads.bound == 0, "%d tasks are on threads that lost a CPU", threads.bound);
    fovea_context_destroy(ctx);
    return unused;
}

static void test_jobs(void) {
    pthread_t caller; /* of its own: it is bound */
    if (test_check(pthread_create(&caller, NULL, run_jobs, NULL) == 0, "pthread_create"))
        pthread_join(caller, NULL);
}

/* ------------------------------------------------------------------------------------------------------- threads -- */

/* Three tasks that wait for each other: each is run by a thread of its own. */
static struct {
    atomic_int inside, met;
    sigset_t blocked[3];
    int cpus[3];
} meeting;

static void meet_task(void *arg, int64_t index) {
    const time_t end = time(NULL) + 4;
    (void)arg;
    pthread_sigmask(SIG_SETMASK, NULL, &meeting.blocked[index]);
    meeting.cpus[index] = fv_cpu_affinity();
    meeting.inside++;
    while (meeting.inside < 3 && time(NULL) < end)
        sched_yield();
    meeting.met += meeting.inside == 3 && time(NULL) < end;
}

static void meet(const fovea_context *ctx, const char *what) {
    /* A call need not wake who sleeps while another thread holds the lock, as one that lost its CPU may. */
    for (int attempt = 0; attempt == 0 || (attempt < 8 && meeting.met < 3); attempt++) {
        meeting.inside = meeting.met = 0;
        fv_parallel(&ctx->threads, 3, &(fv_work){.task = meet_task});
    }
    test_check(meeting.met == 3, "%s: not three threads at once", what);
}

static void test_threads(void) {
    const int before = creations;
    fovea_context *ctx = context_with_pool(3);
    check_threads(0, "a new context");
    meet(ctx, "the first call");
    check_threads(2, "a call for three threads");
    test_check(creations - before == 2, "%d threads are made for three", creations - before);
    static const char passed[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGKILL, SIGSTOP};
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    for (int signal = 1; signal <= SIGSYS; signal++) {
        int blocking = -sigismember(&mine, signal);
        for (int i = 0; i < 3; i++)
            blocking += sigismember(&meeting.blocked[i], signal);
        test_check(blocking == (memchr(passed, signal, sizeof passed) ? 0 : 2), "%d threads block signal %d", blocking,
                   signal);
    }
    int bound = 0;
    for (int i = 0; i < 3; i++)
        bound += meeting.cpus[i] != fv_cpu_affinity();
    test_check(bound <= 1, "%d threads are bound, not only the first one by OpenMP", bound);
    fovea_context_destroy(ctx); /* while they spin */
    check_threads(0, "after the context");
    ctx = context_with_pool(3);
    solve_few(ctx, "before threads sleep");
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    meet(ctx, "after threads have slept");
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    fovea_context_destroy(ctx);
    check_threads(0, "after a context whose threads slept");
    for (int64_t i = 0, contexts = test_scaled(300); i < contexts; i++) {
        ctx = context_with_pool(1 + (int)(i % 4));
        if (i % 3)
            problem_solve(&problems[1], ctx, "one of many contexts");
        fovea_context_destroy(ctx);
    }
    check_threads(0, "after many contexts");
}

/* CPU milliseconds of this process in the 200 ms after a call; -1: a context has but one thread. */
static double spun(int spin_us) {
    fovea_context_options options;
    fovea_context *ctx;
    struct timespec times[4];
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL;
    options.pool_spin_us = spin_us;
    if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail()))
        return 0;
    solve_few(ctx, "a pool that spins for as long as told");
    nanosleep(&(struct timespec){0, 10000000}, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &times[0]);
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &times[1]);
    const bool alone = ctx->threads.count == 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &times[2]); /* of the process: a busy host does not count */
    fovea_context_destroy(ctx);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &times[3]);
    const double end =
        1e3 * (double)(times[3].tv_sec - times[2].tv_sec) + 1e-6 * (double)(times[3].tv_nsec - times[2].tv_nsec);
    test_check(end < 100, "threads that spin for %d us take %.0f ms of CPU to end", spin_us, end);
    if (alone)
        return -1;
    return 1e3 * (double)(times[1].tv_sec - times[0].tv_sec) + 1e-6 * (double)(times[1].tv_nsec - times[0].tv_nsec);
}

/* A busy host may keep threads from their turn until they are watched: the best of some tries counts. */
static void test_spin(void) {
    enum { TRIES = 5 };
    double brief = 1e3, lasting = -1;
    for (int i = 0; i < TRIES && (brief >= 2 || lasting <= 2); i++) {
        const double once = spun(0), longer = spun(250000);
        if (longer < 0)
            return;
        brief = once < brief ? once : brief;
        lasting = longer > lasting ? longer : lasting;
    }
    test_check(brief < 2 && lasting > 2,
               "idle threads spin for %.1f ms by default, %.1f of 200 ms if told to for longer", brief, lasting);
}

static void test_refused(void) {
    for (int allowed = 0; allowed < 3; allowed++) {
        fovea_context *ctx = context_with_pool(4);
        creations = 0;
        creations_allowed = allowed;
        solve_few(ctx, "the system refuses threads");
        test_check(creations == allowed + 1, "%d threads are asked for after a refusal, not %d", creations,
                   allowed + 1);
        creations_allowed = 1 << 30;
        fovea_context_destroy(ctx);
    }
}

/* --------------------------------------------------------------------------------------------------------- forks -- */

static void check_child(pid_t child, const char *what) {
    int status = -1;
    const pid_t ended = waitpid(child, &status, 0);
    test_check(child > 0 && ended == child && status == 0, "%s: status 0x%x", what, (unsigned)status);
}

/* On its parent's context, on one of its own, and in its own child. */
static bool compute_in_child(fovea_context *ctx, int depth) {
    outputs *got = outputs_make(&problems[1].c, problems[1].c.layout);
    const int before = creations;
    bool good = case_run(ctx, NULL, &problems[1].c, problems[1].in, got) &&
                outputs_same(got, problems[1].want, "in a child") && creations - before == ctx->threads.count - 1;
    fovea_context *own = context_with_pool(3);
    outputs_clear(got);
    good = good && case_run(own, NULL, &problems[1].c, problems[1].in, got) &&
           outputs_same(got, problems[1].want, "in a child");
    if (depth > 0) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            _exit(!compute_in_child(ctx, depth - 1));
        }
        int status = -1;
        good = good && waitpid(child, &status, 0) == child && status == 0;
    }
    fovea_context_destroy(own);
    fovea_context_destroy(ctx);
    outputs_free(got);
    return good;
}

static atomic_bool enough;

static void *keep_calling(void *ctx) {
    while (!enough)
        fv_parallel(&((fovea_context *)ctx)->threads, 3, &(fv_work){.task = count_task});
    return NULL;
}

static void test_forks(void) {
    fovea_context *ctx = context_with_pool(3);
    for (int used = 0; used < 2; used++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            _exit(!compute_in_child(ctx, 1));
        }
        check_child(child, used ? "a child of a process with a pool" : "a child of a process without threads");
        const pid_t other = fork();
        if (other == 0) {
            alarm(60);
            fovea_context_destroy(ctx);
            _exit(0);
        }
        check_child(other, "a child that only destroys a context");
        solve_few(ctx, "in the parent");
    }
    /* During a call: the child finds the pool in use. It takes no memory: a sanitizer's malloc may be locked there. */
    pthread_t caller;
    test_check(pthread_create(&caller, NULL, keep_calling, ctx) == 0, "pthread_create");
    while (ran[0] < 100)
        sched_yield();
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (int k = 0; k < 3; k++)
                ran[k] = 0;
            fv_parallel(&ctx->threads, 3, &(fv_work){.task = count_task});
            _exit(!(ran[0] == 1 && ran[1] == 1 && ran[2] == 1));
        }
        check_child(child, "a child forked during a call");
    }
    enough = true;
    pthread_join(caller, NULL);
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_pool", NULL);
    threads_begin();
    problems_make();
    test_threads(); /* before there are OpenMP's */
    test_refused();
    test_spin();
    test_jobs();
    if (threads_before != 1)
        test_skip("forks: a sanitizer or an emulator allows no threads in a child");
    else
        test_forks();
    test_callers();
    test_bits();
    problems_free();
    return test_end();
}
