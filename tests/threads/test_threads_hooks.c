/* The enter and leave hooks of parallel work. Each thread that runs tasks enters before its first and leaves
 * after its last, once; a thread that runs none does neither; each task runs once, on a thread that is in. On OpenMP's
 * threads, in pools of several kinds, the library's among them, alone, and nested in other work. */
#include "test.h"
#include "thread_pool.h"
#include "threads/threads.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 80 };

/* Events of one call. */
typedef struct record {
    int number;           /* no other has it */
    atomic_int ran[MOST]; /* of each task */
    atomic_int entered, left, threads;
    atomic_bool wrong;
    const fv_threads *nested; /* tasks call fv_parallel() with them, for this record: */
    struct record *within;
} record;

static _Thread_local int in;   /* the number of the record that this thread has entered; 0: none */
static _Thread_local int seen; /* and of the last one whose tasks it ran */

static void enter(void *arg) {
    record *r = arg;
    r->entered++;
    if (in == r->number || seen == r->number)
        r->wrong = true;
    r->threads += seen != r->number;
    seen = in = r->number;
}

static void leave(void *arg) {
    record *r = arg;
    r->left++;
    if (in != r->number)
        r->wrong = true;
    in = 0;
}

static void check(const record *r, int64_t count, const char *what) {
    int64_t once = 0;
    for (int64_t i = 0; i < MOST; i++)
        once += r->ran[i] == (i < count);
    test_check(once == MOST, "%s, %" PRId64 " tasks: %" PRId64 " run as often as they should", what, count, once);
    test_check(!r->wrong, "%s, %" PRId64 " tasks: a thread enters twice, or a task or leave comes outside", what,
               count);
    test_check(r->entered == r->left && r->entered == r->threads && (r->entered > 0) == (count > 0) &&
                   r->entered <= count,
               "%s, %" PRId64 " tasks: %d entered, %d left, %d threads", what, count, (int)r->entered, (int)r->left,
               (int)r->threads);
}

static void run(void *arg, int64_t index) {
    record *r = arg;
    r->ran[index]++;
    if (in != r->number)
        r->wrong = true;
    if (!r->nested)
        return;
    record *inner = r->within + index;
    fv_parallel(r->nested, 3, &(fv_work){.task = run, .enter = enter, .leave = leave, .arg = inner});
    check(inner, 3, "nested");
    test_check(inner->threads == 1, "nested work runs on %d threads", (int)inner->threads);
    seen = in = r->number; /* the inner work has overwritten them */
}

static record *record_make(int64_t count) {
    static int number;
    record *r = calloc((size_t)count, sizeof *r);
    if (!r)
        exit(TEST_FAILED);
    for (int64_t i = 0; i < count; i++)
        r[i].number = ++number;
    return r;
}

static void test_threads(const fv_threads *threads, const char *what) {
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64};
    for (int i = 0; i < 6 && counts[i] <= threads->count; i++)
        for (int nested = 0; nested < 2; nested++) {
            record *r = record_make(1), *inner = record_make(MOST);
            r->nested = nested && counts[i] > 1 ? threads : NULL;
            r->within = inner;
            fv_parallel(threads, counts[i], &(fv_work){.task = run, .enter = enter, .leave = leave, .arg = r});
            check(r, counts[i], what);
            free(inner);
            free(r);
        }
}

static void count_run(void *arg, int64_t index) {
    record *r = arg;
    r->ran[index]++;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_hooks", NULL);
    thread_pool *one = thread_pool_create(1), *two = thread_pool_create(2), *seven = thread_pool_create(7);
    static const int own_threads[3] = {3, 7, 64};
    fovea_thread_pool *own[3];
    for (int i = 0; i < 3; i++)
        test_check(fovea_thread_pool_create(own_threads[i], i == 2, &own[i]) == FOVEA_OK, "%s", fovea_error_detail());
    const struct {
        const char *name;
        fv_threads threads;
    } all[] = {{"one thread", {1, NULL, NULL, NULL}},
               {"own threads, few", {3, NULL, NULL, NULL}},
               {"own threads, many", {64, NULL, NULL, NULL}},
               {"the library's pool of three", {3, fovea_thread_pool_run, own[0], NULL}},
               {"the library's pool of seven", {7, fovea_thread_pool_run, own[1], NULL}},
               {"the library's pool of 64", {64, fovea_thread_pool_run, own[2], NULL}},
               {"a pool of one", {64, thread_pool_parallel_for, one, NULL}},
               {"a pool of two", {64, thread_pool_parallel_for, two, NULL}},
               {"a pool of seven", {64, thread_pool_parallel_for, seven, NULL}},
               {"a pool without threads", {64, serial_parallel_for, NULL, NULL}},
               {"a pool that goes backwards", {64, reverse_parallel_for, NULL, NULL}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int round = 0; round < 20; round++)
            test_threads(&all[i].threads, all[i].name);
    record *r = record_make(1);
    fv_parallel(&all[1].threads, 3, &(fv_work){.task = count_run, .arg = r});
    test_check(r->ran[0] == 1 && r->ran[1] == 1 && r->ran[2] == 1 && r->entered == 0, "work without hooks");
    free(r);
    for (int i = 0; i < 3; i++)
        fovea_thread_pool_destroy(own[i]);
    thread_pool_destroy(one);
    thread_pool_destroy(two);
    thread_pool_destroy(seven);
    return test_end();
}
