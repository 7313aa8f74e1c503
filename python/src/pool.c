/* Tasks on threads (pool.h).
 *
 * A call is a job: a counter of indices, claimed by whoever takes part. With torch these are the caller and torch's
 * threads, one range each; else the caller and threads of the library's pool. */
#include "pool.h"

#include "fovea/fovea.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifndef _WIN32
#include <pthread.h>
#include <sys/stat.h>
#endif

enum {
    MOST_THREADS = 1024,
    SPIN_US = 200 /* Python takes some 10 to 100 us between the calls of a model, and a wake-up 50 */
};

typedef struct job {
    void (*task)(void *arg, int64_t index);
    void *arg;
    int64_t count;
    _Atomic int64_t next;
} job;

static _Thread_local bool inside_task;

static void drain(job *j) {
    const bool before = inside_task;
    inside_task = true;
    int64_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->count)
        j->task(j->arg, i);
    inside_task = before;
}

/* -------------------------------------------------------------------------------------------------------- limits -- */

static _Atomic int asked; /* fovea.set_num_threads() */
static _Atomic int environment = -1;
static _Atomic bool orphaned; /* a child of a process with several threads: torch's would be waited for forever */

static int omp_num_threads(void) {
    int threads = atomic_load_explicit(&environment, memory_order_relaxed);
    if (threads < 0) {
        const char *text = getenv("OMP_NUM_THREADS"); /* "4", or "4,2" for nested levels */
        const long number = text ? strtol(text, NULL, 10) : 0;
        threads = number > 0 && number <= MOST_THREADS ? (int)number : 0;
        atomic_store(&environment, threads);
    }
    return threads;
}

static int torch_threads(const py_torch_pool *torch) {
    uint32_t threads = 0;
    return torch && torch->get_num_threads(&threads) == 0 && threads <= MOST_THREADS ? (int)threads : 0;
}

static int limit(const py_torch_pool *torch) {
    const int set = atomic_load_explicit(&asked, memory_order_relaxed);
    const int first = set ? set : torch ? 0 : omp_num_threads(), second = torch_threads(torch);
    return !first || (second && second < first) ? second : first;
}

int py_pool_threads(void) { return limit(py_torch_pool_find()); }

void py_pool_set_threads(int threads) { atomic_store(&asked, threads); }

const char *py_pool_name(void) { return py_torch_pool_find() && !atomic_load(&orphaned) ? "torch" : "own"; }

/* --------------------------------------------------------------------------------------------------- own threads -- */

static _Atomic(fovea_thread_pool *) own; /* made by the first call that wants it, and never destroyed */

static fovea_thread_pool *own_pool(void) {
    fovea_thread_pool *pool = atomic_load(&own), *made;
    if (pool || fovea_thread_pool_create(MOST_THREADS, SPIN_US, &made) != FOVEA_OK)
        return pool;
    if (atomic_compare_exchange_strong(&own, &pool, made))
        return made;
    fovea_thread_pool_destroy(made); /* another thread was first */
    return pool;
}

static void run_index(void *arg, int64_t index) {
    (void)index;
    drain(arg);
}

static void run_own(job *j, int threads) {
    fovea_thread_pool *pool = own_pool();
    if (pool)
        fovea_thread_pool_run(pool, threads, run_index, j);
    else
        drain(j);
}

/* --------------------------------------------------------------------------------------------------------- forks -- */

#ifndef _WIN32 /* which has none */
static _Thread_local bool threads_at_fork;

static void before_fork(void) {
    struct stat tasks;
    threads_at_fork = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3; /* one thread, . and .. */
}

static void in_child(void) {
    if (threads_at_fork)
        atomic_store(&orphaned, true);
}

__attribute__((constructor)) static void watch_forks(void) { (void)pthread_atfork(before_fork, NULL, in_child); }
#endif

/* --------------------------------------------------------------------------------------------------------- calls -- */

static void run_range(int64_t begin, int64_t end, void *arg) {
    if (begin < end)
        drain(arg);
}

void py_pool_parallel_for(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    job j = {.task = task, .arg = arg, .count = count};
    if (count <= 1 || inside_task) {
        drain(&j);
        return;
    }
    const py_torch_pool *torch = py_torch_pool_find();
    const int most = limit(torch);
    const int threads = most && most < count ? most : (int)(count < MOST_THREADS ? count : MOST_THREADS);
    if (threads == 1)
        drain(&j);
    else if (torch && !atomic_load_explicit(&orphaned, memory_order_relaxed)) {
        (void)torch->parallel_for(0, threads, 1, run_range, &j);
        drain(&j); /* what is left after an error: nothing has run */
    } else
        run_own(&j, threads);
}
