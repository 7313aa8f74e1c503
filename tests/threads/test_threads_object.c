/* fovea_thread_pool: contexts share its threads, and it outlives them; each index runs once; wrong arguments. */
#include "context/context.h"
#include "thread_creations.h"
#include "thread_problems.h"

enum { MOST = 7 };
static atomic_int ran[MOST];

static void count_task(void *arg, int64_t index) {
    (void)arg;
    ran[index]++;
}

static void test_contexts(void) {
    fovea_thread_pool *pool = NULL;
    test_check(fovea_thread_pool_create(3, 0, &pool) == FOVEA_OK && pool, "%s", fovea_error_detail());
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.parallel_for = fovea_thread_pool_run;
    options.pool = pool;
    options.threads = 3;
    creations = 0;
    for (int round = 0; round < 2; round++) { /* contexts of the second round use the threads of the first */
        fovea_context *ctx[2] = {NULL};
        for (int i = 0; i < 2; i++) {
            test_check(fovea_context_create(&options, &ctx[i]) == FOVEA_OK, "%s", fovea_error_detail());
            ctx[i]->threads.count = 3; /* whatever the CPUs allow */
            for (int n = 0; n <= MASKED; n++)
                problem_solve(&problems[n], ctx[i], "contexts share a pool");
        }
        for (int i = 0; i < 2; i++)
            fovea_context_destroy(ctx[i]);
    }
    test_check(creations == 2, "four contexts make %d threads in a pool of 3", creations);
    fovea_thread_pool_run(pool, MOST, count_task, NULL);
    for (int i = 0; i < MOST; i++)
        test_check(ran[i] == 1, "on 3 threads, index %d of %d ran %d times", i, MOST, ran[i]);
    fovea_thread_pool_destroy(pool);
    check_threads(0, "a pool is destroyed");
    fovea_thread_pool_destroy(NULL);
}

static void test_arguments(void) {
    fovea_thread_pool *pool = NULL;
    static const int wrong[][2] = {{0, 0}, {-1, 0}, {2, -1}, {2, 1000001}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pool = (fovea_thread_pool *)&wrong;
        check_status("a pool", fovea_thread_pool_create(wrong[i][0], wrong[i][1], &pool), FOVEA_ERROR_ARGUMENT,
                     "threads is");
        test_check(!pool, "a pool of %d threads that spin for %d us", wrong[i][0], wrong[i][1]);
    }
    check_status("a pool", fovea_thread_pool_create(2, 0, NULL), FOVEA_ERROR_NULL, "pool");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_object", NULL);
    threads_begin();
    problems_make();
    test_contexts();
    test_arguments();
    problems_free();
    return test_end();
}
