/* test-threads-pool: the library's own pool (FOVEA_THREADS_POOL).
 *
 *   bits       problems on 1, 2, 3 and 7 threads, in tasks of the pool, within an OpenMP region, by eight callers of
 *              one context and of contexts of their own
 *   jobs       many short ones, with pauses in which threads fall asleep: each index once
 *   threads    made by the first call that wants them, joined with the context, whether they spin or sleep; all signals
 *              of the program's are blocked in them; hundreds of contexts; fewer where pthread_create() fails
 *   forks      a child makes threads of its own, also if forked beside a call, and destroys its parent's context
 *   choice     options, environment, and what fovea_info says
 *
 * Results are compared with those of the scalar tier on one thread. Runs under ThreadSanitizer, too. Rounding modes:
 * test_modes.c; hooks: test_hooks.c. */
#define _POSIX_C_SOURCE 200809L
#include "context/context.h"
#include "thread_problems.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The linker puts this in the place of pthread_create(). */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

static atomic_int creations, creations_allowed = 1 << 30;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    return creations++ < creations_allowed ? __real_pthread_create(thread, attributes, run, arg) : 11; /* EAGAIN */
}

/* Beside those of the first call, which may be an emulator's. -1: unknown. */
static int threads_now(void) {
    struct stat tasks;
    static int own = -1; /* at the first call */
    const int now = !UNDER_TSAN && stat("/proc/self/task", &tasks) == 0 ? (int)tasks.st_nlink - 2 : -1;
    if (own < 0)
        own = now;
    return now < 0 ? -1 : now - own;
}

/* A thread that was joined leaves the list of the system's soon after. */
static void check_threads(int want, const char *what) {
    int now = threads_now();
    for (int i = 0; i < 1000 && now > want; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        now = threads_now();
    }
    test_check(now < 0 || now == want, "%s: %d threads beside the first, not %d", what, now, want);
}

static void solve_all(const fovea_context *ctx, const char *what) {
    for (int n = 0; n < PROBLEMS; n++)
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
        solve_all(ctx, "the library's pool");
        test_check(fovea_parallel(ctx, 2 * PROBLEMS, solve_task, ctx) == FOVEA_OK, "%s", fovea_error_detail());
        fovea_context_destroy(ctx);
    }
#ifdef _OPENMP
    fovea_context *ctx = context_with_pool(3);
    const int before = creations;
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int n = 0; n < 4 * PROBLEMS; n++)
        problem_solve(&problems[n % PROBLEMS], ctx, "within an OpenMP region");
    test_check(creations == before, "a call from within an OpenMP region makes threads");
    fovea_context_destroy(ctx);
#endif
}

enum { CALLERS = 8 };

static void *call_shared(void *ctx) {
    for (int64_t round = 0, rounds = test_scaled(8); round < rounds; round++)
        solve_all(ctx, "one context, many callers");
    return NULL;
}

static void *call_own(void *unused) {
    fovea_context *ctx = context_with_pool(3);
    solve_all(ctx, "a context for each caller");
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

/* The jobs' sizes change; now and then threads fall asleep between two. */
static void test_jobs(void) {
    fovea_context *ctx = context_with_pool(MOST);
    const fv_work work = {.task = count_task};
    const int64_t jobs = test_scaled(40000);
    int64_t wrong = 0;
    for (int64_t i = 0; i < jobs; i++) {
        const int64_t count = 2 + i % (MOST - 1);
        fv_parallel(&ctx->threads, count, &work);
        for (int64_t k = 0; k < MOST; k++)
            wrong += atomic_exchange(&ran[k], 0) != (k < count);
        if (i % 200 == 0)
            nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    test_check(wrong == 0, "of %" PRId64 " jobs, %" PRId64 " indices are not run once", jobs, wrong);
    fovea_context_destroy(ctx);
}

/* ------------------------------------------------------------------------------------------------------- threads -- */

static sigset_t blocked[MOST];

static void meet_task(void *arg, int64_t index) {
    atomic_int *inside = arg;
    const time_t end = time(NULL) + 20;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked[index]);
    ++*inside;
    while (*inside < 3 && time(NULL) < end) /* so that each is run by a thread of its own */
        sched_yield();
}

static void test_threads(void) {
    const int before = creations;
    fovea_context *ctx = context_with_pool(3);
    check_threads(0, "a new context");
    atomic_int inside = 0;
    fv_parallel(&ctx->threads, 3, &(fv_work){.task = meet_task, .arg = &inside});
    check_threads(2, "a call for three threads");
    test_check(creations - before == 2, "%d threads are made for a call of three", creations - before);
    int blocking = 0, faults = 0;
    for (int i = 0; i < 3; i++) {
        blocking += sigismember(&blocked[i], SIGINT) == 1 && sigismember(&blocked[i], SIGCHLD) == 1;
        faults += sigismember(&blocked[i], SIGSEGV) == 1;
    }
    test_check(blocking == 2 && faults == 0, "%d threads block SIGINT, %d SIGSEGV", blocking, faults);
    fovea_context_destroy(ctx); /* while they spin */
    check_threads(0, "after the context");
    ctx = context_with_pool(3);
    solve_all(ctx, "before threads sleep");
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    solve_all(ctx, "after threads have slept");
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

static void test_refused(void) {
    for (int allowed = 0; allowed < 3; allowed++) {
        fovea_context *ctx = context_with_pool(4);
        creations = 0;
        creations_allowed = allowed;
        solve_all(ctx, "the system refuses threads");
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
        solve_all(ctx, "in the parent");
    }
    /* Beside a call: the child finds the pool in use. It takes no memory: a sanitizer's malloc may be locked there. */
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
        check_child(child, "a child forked beside a call");
    }
    enough = true;
    pthread_join(caller, NULL);
    fovea_context_destroy(ctx);
}

/* -------------------------------------------------------------------------------------------------------- choice -- */

/* What a context of these options says of its threads; "": there is none, for that status. */
static const char *reason_of(fovea_threads_backend backend, fovea_parallel_for parallel_for, const char *environment,
                             fovea_status want, const char *words) {
    static char text[512];
    char before[32] = "";
    fovea_context_options options;
    fovea_context *ctx;
    fovea_info info;
    fovea_context_options_init(&options);
    options.threads_backend = backend;
    options.parallel_for = parallel_for;
    if (getenv("FOVEA_THREADS_BACKEND"))
        snprintf(before, sizeof before, "%s", getenv("FOVEA_THREADS_BACKEND"));
    setenv("FOVEA_THREADS_BACKEND", environment, 1);
    const fovea_status status = fovea_context_create(&options, &ctx);
    setenv("FOVEA_THREADS_BACKEND", before, 1);
    text[0] = '\0';
    check_status("a backend", status, want, words);
    fovea_info_init(&info);
    if (status == FOVEA_OK && fovea_context_info(ctx, &info) == FOVEA_OK)
        snprintf(text, sizeof text, "%s", strchr(info.reason, ';'));
    fovea_context_destroy(ctx);
    return text;
}

static void some_pool(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

static void test_choice(void) {
    const bool openmp = fv_threads_of_openmp().built;
    const char *pool = "of the context's pool,", *team = openmp ? "of OpenMP," : pool, *own = "in the caller's pool,";
    const fovea_status no_openmp = openmp ? FOVEA_OK : FOVEA_ERROR_UNSUPPORTED;
    const fovea_status no_word = openmp ? FOVEA_OK : FOVEA_ERROR_ENVIRONMENT;
    const struct {
        fovea_threads_backend backend;
        const char *environment;
        fovea_parallel_for parallel_for;
        fovea_status status;
        const char *words; /* of the reason, or of the error's sentence */
    } cases[] = {
        {FOVEA_THREADS_DEFAULT, "", NULL, FOVEA_OK, team},
        {FOVEA_THREADS_POOL, "", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_OPENMP, "", NULL, no_openmp, openmp ? team : "threads_backend|built without OpenMP"},
        {FOVEA_THREADS_DEFAULT, "pool", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_OPENMP, "pool", NULL, FOVEA_OK, pool},
        {FOVEA_THREADS_POOL, "openmp", NULL, no_word, openmp ? team : "FOVEA_THREADS_BACKEND|openmp|build"},
        {FOVEA_THREADS_DEFAULT, "Pool", NULL, FOVEA_ERROR_ENVIRONMENT, "FOVEA_THREADS_BACKEND|Pool|pool"},
        {FOVEA_THREADS_DEFAULT, "pool", some_pool, FOVEA_OK, own},
        {FOVEA_THREADS_POOL, "", some_pool, FOVEA_ERROR_ARGUMENT, "parallel_for|threads_backend"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *reason =
            reason_of(cases[i].backend, cases[i].parallel_for, cases[i].environment, cases[i].status, cases[i].words);
        test_check(cases[i].status != FOVEA_OK || strstr(reason, cases[i].words), "case %zu: no \"%s\" in \"%s\"", i,
                   cases[i].words, reason);
    }
    fovea_context_options options; /* of a program that was compiled with version 0.2 */
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL;
    options.struct_size = offsetof(fovea_context_options, threads_backend);
    if (test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail()))
        test_check(!openmp || !ctx->threads.parallel_for, "a field behind struct_size is read");
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads-pool", NULL);
    threads_now();
    problems_make();
    test_threads(); /* before there are OpenMP's */
    test_refused();
    test_jobs();
    if (UNDER_TSAN)
        test_skip("forks: ThreadSanitizer allows no threads in a child");
    else
        test_forks();
    test_callers();
    test_bits();
    test_choice();
    problems_free();
    return test_end();
}
