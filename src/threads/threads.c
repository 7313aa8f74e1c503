/* Threads: OpenMP or a pool (threads.h). */
#include "threads/threads.h"

#include "core/core.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#else
/* "4", or "4,2" for nested levels. */
static int number_of(const char *variable) {
    const char *text = fv_environment(variable);
    const long number = text ? strtol(text, NULL, 10) : 0;
    return number > 0 && number < INT_MAX ? (int)number : 0;
}
#endif

fv_openmp fv_threads_of_openmp(void) {
#ifdef _OPENMP
    return (fv_openmp){true, omp_get_max_threads(), omp_get_thread_limit()};
#else
    return (fv_openmp){false, number_of("OMP_NUM_THREADS"), number_of("OMP_THREAD_LIMIT")};
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
    const fv_work *work;
    int64_t count;
    fv_float_mode mode; /* the caller's */
    const bool *caller; /* inside_task of its thread */
    _Atomic int64_t next;
} job;

static _Thread_local bool inside_task;

/* A thread's state before its first task. */
typedef struct outside {
    fv_float_mode mode;
    bool inside;
} outside;

static outside enter(const job *j) {
    const outside before = {fv_float_mode_now(), inside_task};
    inside_task = true;
    if (j->caller != &inside_task)
        fv_float_mode_set(&j->mode);
    if (j->work->enter)
        j->work->enter(j->work->arg);
    return before;
}

/* A pool's threads have modes of their own. The caller's keeps the flags of its tasks' exceptions. */
static void leave(const job *j, const outside *before) {
    if (j->work->leave)
        j->work->leave(j->work->arg);
    if (j->caller != &inside_task)
        fv_float_mode_set(&before->mode);
    inside_task = before->inside;
}

#ifdef _OPENMP
/* Tasks first, first + step ...: one thread's, which finds their scratch in its caches. */
static void run_share(const job *j, int64_t first, int64_t step) {
    if (first >= j->count)
        return;
    const outside before = enter(j);
    for (int64_t i = first; i < j->count; i += step)
        j->work->task(j->work->arg, i);
    leave(j, &before);
}
#endif

/* An index of a pool's, for any task that is left and all that are left then, so that a thread which returns from it
 * has run its last. */
static void run_rest(void *data, int64_t index) {
    job *j = data;
    (void)index;
    int64_t i = atomic_fetch_add(&j->next, 1);
    if (i >= j->count)
        return;
    const outside before = enter(j);
    do
        j->work->task(j->work->arg, i);
    while ((i = atomic_fetch_add(&j->next, 1)) < j->count);
    leave(j, &before);
}

static void run_serial(const fv_work *work, int64_t count) {
    if (count > 0 && work->enter)
        work->enter(work->arg);
    for (int64_t i = 0; i < count; i++)
        work->task(work->arg, i);
    if (count > 0 && work->leave)
        work->leave(work->arg);
}

static bool within_openmp(void) {
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return false;
#endif
}

void fv_parallel(const fv_threads *threads, int64_t count, const fv_work *work) {
    assert(count >= 0 && count <= threads->count);
    const bool own = !threads->parallel_for || threads->parallel_for == fovea_thread_pool_run;
    if (count <= 1 || inside_task || (own && within_openmp())) {
        run_serial(work, count);
        return;
    }
    FV_HOLD_CANCELLATION(); /* others have the job */
    job j = {.work = work, .count = count, .mode = fv_float_mode_now(), .caller = &inside_task};
    if (threads->parallel_for) {
        threads->parallel_for(threads->pool, count, run_rest, &j);
        return;
    }
#ifdef _OPENMP
    /* Members without a task are idle: libgomp ends threads for a smaller team, and makes them again for a larger
     * one. */
    const int team = (int)fv_min(threads->count, omp_get_max_threads());
    if (team > 1 && !atomic_load(&fv_orphaned)) {
#pragma omp parallel num_threads(team)
        run_share(&j, omp_get_thread_num(), omp_get_num_threads());
        return;
    }
#endif
    run_serial(work, count);
}
