/* Calls are no cancellation points: pthread_cancel() of a thread that is in a call acts after the call.
 *
 *   waiting   cancelled while it waits for the other thread of a job: of the library's pool, of a caller's, of OpenMP's
 *   pending   cancelled before it makes contexts, plans, maps and results, and reads and writes tuning files
 *
 * The job is done, and its contexts serve calls of others. Runs under ThreadSanitizer, too. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, dup2 */
#include "context/context.h"
#include "thread_pool.h"
#include "thread_problems.h"
#include "tuning_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(int ms) { nanosleep(&(struct timespec){0, ms * 1000000L}, NULL); }

/* Is cancelled if it has got to its end. */
static void *cancelled_after(void (*body)(void *), void *arg) {
    body(arg);
    pthread_testcancel();
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------- waiting -- */

typedef struct waiting {
    const fovea_context *ctx;
    pthread_t caller;
    atomic_int begun, done, returned;
    atomic_bool cancelled;
} waiting;

/* Two tasks at once. The caller's ends soon, the other one a while after the caller was cancelled. */
static void wait_task(void *arg, int64_t index) {
    waiting *w = arg;
    (void)index;
    w->begun++;
    for (int i = 0; i < 1000 && w->begun < 2; i++)
        sched_yield();
    if (!pthread_equal(pthread_self(), w->caller)) {
        while (!w->cancelled)
            sched_yield();
        sleep_ms(20);
    }
    w->done++;
}

static void call_waiting(void *arg) {
    waiting *w = arg;
    w->caller = pthread_self();
    test_check(fovea_parallel(w->ctx, 2, wait_task, w) == FOVEA_OK, "%s", fovea_error_detail());
    w->returned++;
    while (!w->cancelled)
        sched_yield();
}

static void *run_waiting(void *arg) { return cancelled_after(call_waiting, arg); }

static void test_waiting(const fovea_context *ctx, const char *whose) {
    for (int round = 0; round < 20; round++) {
        waiting w = {.ctx = ctx};
        pthread_t thread;
        void *end = NULL;
        if (!test_check(pthread_create(&thread, NULL, run_waiting, &w) == 0, "pthread_create"))
            return;
        while (w.begun == 0)
            sched_yield();
        pthread_cancel(thread);
        w.cancelled = true;
        pthread_join(thread, &end);
        test_check(w.done == 2 && w.returned == 1, "%s: %d of 2 tasks done, %d of 1 call returned", whose, w.done,
                   w.returned);
        test_check(end == PTHREAD_CANCELED, "%s: the thread was not cancelled after the call", whose);
    }
    for (int n = 0; n <= MASKED; n++)
        problem_solve(&problems[n], ctx, whose);
}

/* ------------------------------------------------------------------------------------------------------- pending -- */

typedef struct pending {
    const fovea_context_options *options;
    char file[256];
    fovea_tuning *sound;
    int steps;
} pending;

static void check_step(pending *p, fovea_status status) {
    test_check(status == FOVEA_OK, "%s", fovea_error_detail());
    p->steps++;
}

static void solve_linear(pending *p, const fovea_context *ctx) {
    enum { N = 16 };
    float w[N * N] = {1}, x[N] = {1}, y[N];
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *linear;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = N;
    desc.part.weight = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, N, N);
    const fovea_tensor to = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, 1, N);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, 1, N);
    args.y = &to;
    check_step(p, fovea_linear_create(ctx, &desc, &linear));
    check_step(p, fovea_linear_apply(ctx, linear, &args, NULL, 0));
    fovea_linear_destroy(linear);
}

static void call_pending(void *arg) {
    pending *p = arg;
    fovea_context *ctx;
    fovea_tuning *tuning;
    pthread_cancel(pthread_self());
    check_step(p, fovea_context_create(p->options, &ctx));
    for (int n = 0; n <= MASKED; n++)
        problem_solve(&problems[n], ctx, "a cancelled thread");
    solve_linear(p, ctx);
    check_step(p, fovea_tuning_save(p->sound, p->file));
    check_step(p, fovea_tuning_load(p->file, &tuning));
    fovea_tuning_destroy(tuning);
    fovea_context_destroy(ctx);
    p->steps++;
}

static void *run_pending(void *arg) { return cancelled_after(call_pending, arg); }

/* With all that a context reads, writes and prints. */
static void test_pending(const fovea_context_options *options, const char *whose) {
    pending p = {.options = options, .sound = tuning_sound(2)};
    pthread_t thread;
    void *end = NULL;
    files_begin();
    snprintf(p.file, sizeof p.file, "%s", files_name("tuning"));
    setenv("FOVEA_LOG_SHAPES", files_name("shapes"), 1);
    setenv("FOVEA_DEBUG", "1", 1);
    const int errors = dup(2), nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 2);
    if (test_check(pthread_create(&thread, NULL, run_pending, &p) == 0, "pthread_create"))
        pthread_join(thread, &end);
    dup2(errors, 2);
    close(errors);
    close(nothing);
    unsetenv("FOVEA_LOG_SHAPES");
    unsetenv("FOVEA_DEBUG");
    files_end();
    fovea_tuning_destroy(p.sound);
    test_check(p.steps == 6, "%s: %d of 6 calls returned", whose, p.steps);
    test_check(end == PTHREAD_CANCELED, "%s: the thread was not cancelled after the calls", whose);
}

/* -------------------------------------------------------------------------------------------------------- backends */

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_cancel", NULL);
    problems_make();
    static const char *const names[] = {"the library's pool", "a caller's pool", "OpenMP's threads"};
    for (int i = 0; i < (fv_threads_of_openmp().built ? 3 : 2); i++) {
        thread_pool *threads = i == 1 ? thread_pool_create(2) : NULL;
        fovea_context_options options;
        fovea_context_options_init(&options);
        options.threads = 2;
        if (i == 1) {
            options.parallel_for = thread_pool_parallel_for;
            options.pool = threads;
        } else
            options.threads_backend = i == 0 ? FOVEA_THREADS_POOL : FOVEA_THREADS_OPENMP;
        fovea_context *ctx = NULL;
        if (i == 0)
            ctx = context_with_pool(2);
        else
            check_status(names[i], fovea_context_create(&options, &ctx), FOVEA_OK, NULL);
        test_waiting(ctx, names[i]);
        test_pending(&options, names[i]);
        fovea_context_destroy(ctx);
        if (threads)
            thread_pool_destroy(threads);
    }
    problems_free();
    return test_end();
}
