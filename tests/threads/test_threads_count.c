/* How many threads run, and which. A context's number is the smallest of the request, what OpenMP would use and
 * what the system allows; its reason names what limits it; that many run, and fewer once omp_set_num_threads() asks for
 * fewer. The team keeps its size whatever the number of tasks, so that its threads stay the same.
 *
 * OpenMP reads its environment when the program starts: ctest runs this program under several, with what to expect. */
#include "attention_case.h"
#include "context/context.h"

#include <inttypes.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads that ran a task of this program's, each counted once. */
static atomic_int threads_seen;
static _Thread_local bool seen;

/* Counts of one call. */
static atomic_int call_threads;
static atomic_int call_number;
static _Thread_local int last_call;

static void task(void *arg, int64_t index) {
    (void)arg, (void)index;
    threads_seen += !seen;
    seen = true;
    call_threads += last_call != call_number;
    last_call = call_number;
}

/* How many threads take part in a call of that many tasks. */
static int run(const fv_threads *threads, int64_t tasks) {
    call_number++;
    call_threads = 0;
    fv_parallel(threads, tasks, &(fv_work){.task = task});
    return call_threads;
}

static fovea_context_facts info_of(const fovea_context *ctx) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK, "info: %s", fovea_error_detail());
    return info;
}

/* A context's number of threads and its reason, and that this many run. */
static void check_number(int asked, int want, const char *by) {
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, asked, NULL);
    const fovea_context_facts info = info_of(ctx);
    char words[128];
    snprintf(words, sizeof words, "; %d thread%s of OpenMP, limited by %s (", want, want == 1 ? "" : "s", by);
    test_check(info.threads == want && strstr(info.reason, words), "%d asked for: %d threads, not \"%s\": %s", asked,
               info.threads, words, info.reason);
    const int ran = run(&ctx->threads, info.threads);
    test_check(ran == info.threads, "%d threads are told of, %d run", info.threads, ran);
    fovea_context_destroy(ctx);
}

static void test_numbers(int most, const char *by) {
    check_number(0, most, by);
    check_number(1, 1, "the options");
    check_number(most, most, "the options");
    check_number(1000, most, by);
}

/* Numbers of threads that OpenMP is told to use, before a context is made and after. */
static void test_set(int most, const char *by) {
    const char *set = "OMP_NUM_THREADS or omp_set_num_threads()";
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    omp_set_num_threads(1);
    test_check(run(&ctx->threads, ctx->threads.count) == 1, "more than one thread after omp_set_num_threads(1)");
    test_check(info_of(ctx).threads == most, "a context changes its number");
    check_number(0, 1, most > 1 ? set : by);
    omp_set_num_threads(1000);
    const int ran = run(&ctx->threads, ctx->threads.count);
    test_check(ran == most, "%d of %d threads after omp_set_num_threads(1000)", ran, most);
    fovea_context_destroy(ctx);
}

/* More threads than there may be CPUs for: only the number of tasks changes. */
static void test_one_size(void) {
    enum { TEAM = 5 };
    if (omp_get_thread_limit() < TEAM) {
        test_skip("a team of %d: OMP_THREAD_LIMIT", TEAM);
        return;
    }
    const fv_threads threads = {.count = TEAM};
    omp_set_num_threads(TEAM);
    for (int i = 0; i < 3; i++)
        test_check(run(&threads, TEAM) == TEAM, "%d threads of %d", (int)call_threads, TEAM);
    const int before = threads_seen;
    for (int i = 0; i < 200; i++) {
        const int tasks = 1 + i * 7 % TEAM, ran = run(&threads, tasks);
        test_check(ran == tasks, "%d threads run %d tasks", ran, tasks);
    }
    test_check(threads_seen == before, "%d threads were made for calls of fewer tasks", threads_seen - before);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--most", "N", "threads that a context has at most; default: CPUs that it may use", NULL},
                             {"--by", "WORDS", "what limits them; default: the affinity mask", NULL},
                             {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "threads_count", options);
    const char *by = test_option_value(options, "--by"), *most = test_option_value(options, "--most");
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    const fovea_context_facts info = info_of(ctx);
    fovea_context_destroy(ctx);
    if (!most && !strstr(info.reason, "the affinity mask (")) {
        test_skip("not the affinity mask limits threads: %s", info.reason);
        return test_end();
    }
    if (most && (strstr(info.reason, "(1 CPU in") || strstr(info.reason, "quota of 1,"))) {
        test_skip("one CPU: OpenMP cannot limit any further");
        return test_end();
    }
    const int expected = most ? atoi(most) : info.threads;
    test_numbers(expected, by ? by : "the affinity mask");
    test_set(expected, by ? by : "the affinity mask");
    test_one_size();
    return test_end();
}
