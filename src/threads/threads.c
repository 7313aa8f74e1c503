/* Threads: OpenMP or the caller's pool (threads.h). The only file that knows OpenMP. */
#include "threads/threads.h"

#include "core/core.h"

#include <assert.h>
#include <fenv.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sys/stat.h>

/* A forked child has its parent's memory and only one of its threads. libgomp does not know: in a child whose parent had
 * a team, the library's or the program's own, it waits for that team's threads, forever. A parent of one thread at the
 * fork had none. Where that cannot be told, the child runs no team. */
static atomic_bool orphaned;
static _Thread_local bool threads_at_fork;

static void before_fork(void) {
    struct stat tasks;
    const int error = errno;
    threads_at_fork = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3; /* one thread, . and .. */
    errno = error;
}

static void in_child(void) {
    if (threads_at_fork)
        atomic_store(&orphaned, true);
}

/* When the library is loaded: the program may fork before it calls. */
__attribute__((constructor)) static void watch_forks(void) { (void)pthread_atfork(before_fork, NULL, in_child); }
#endif

bool fv_parallel_own(void) {
#ifdef _OPENMP
    return true;
#else
    return false;
#endif
}

void fv_parallel_places(void (*add)(void *arg, int cpu), void *arg) {
#ifdef _OPENMP
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    for (int place = 0; place < places; place++) {
        const int count = omp_get_place_num_procs(place);
        int *cpus = malloc((size_t)fv_max(count, 1) * sizeof *cpus);
        if (!cpus)
            return;
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < count; i++)
            add(arg, cpus[i]);
        free(cpus);
    }
#else
    (void)add, (void)arg;
#endif
}

int64_t fv_claim(_Atomic int64_t *next, int64_t count, int64_t tasks, int64_t *end) {
    assert(tasks >= 1);
    int64_t first = atomic_load(next);
    do
        *end = first < count ? first + fv_max((count - first) / (tasks == 1 ? 1 : 4 * tasks), 1) : first;
    while (*end > first && !atomic_compare_exchange_weak(next, &first, *end));
    return first;
}

typedef struct job {
    void (*task)(void *arg, int64_t index);
    void *arg;
    fenv_t environment; /* the caller's rounding mode, and on x86 its MXCSR with flush-to-zero */
} job;

static _Thread_local bool inside_task;

/* A task leaves its thread as it found it: a pool's threads have settings of their own. */
static void run(void *data, int64_t index) {
    const job *j = data;
    fenv_t own;
    const bool outer = inside_task;
    inside_task = true;
    fegetenv(&own);
    fesetenv(&j->environment);
    j->task(j->arg, index);
    fesetenv(&own);
    inside_task = outer;
}

static void run_serial(job *j, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        j->task(j->arg, i);
}

void fv_parallel(const fv_threads *threads, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    assert(count >= 0 && count <= threads->count);
    job j = {.task = task, .arg = arg};
    if (count <= 1 || inside_task) {
        run_serial(&j, count);
        return;
    }
    fegetenv(&j.environment);
    if (threads->parallel_for) {
        threads->parallel_for(threads->pool, count, run, &j);
        return;
    }
#ifdef _OPENMP
    if (!omp_in_parallel() && !atomic_load(&orphaned)) {
#pragma omp parallel for num_threads((int)count) schedule(static, 1)
        for (int64_t i = 0; i < count; i++)
            run(&j, i);
        return;
    }
#endif
    run_serial(&j, count);
}
