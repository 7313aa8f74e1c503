/* Tasks on threads (pool.h).
 *
 * A call is a job: a counter of indices, claimed by whoever takes part. The calling thread takes part from the start, so
 * nothing waits for a thread that wakes up late: what is claimed when the indices run out is all that a call waits for. With
 * torch the others are torch's, one range each; else the own threads join the job while it is open.
 *
 * Own threads are made when a call needs them, and stay. Without work they spin for spin_ns, since calls often come one upon
 * the other, then sleep. One job runs on them at a time. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/* Longer keeps CPUs from other pools of the process, shorter makes the next call of a model's layers wake threads, at some
 * 50 us each. */
static const int64_t spin_ns = 20000;

enum { MOST_THREADS = 1024, CLOSED = 1 << 30 };

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

/* ---------------------------------------------------------------------------------------------------------- limits -- */

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

/* ----------------------------------------------------------------------------------------------------- own threads -- */

typedef struct team {
    pthread_mutex_t lock; /* of sleeping, and of making threads */
    pthread_cond_t wake;
    pthread_t threads[MOST_THREADS];
    int count, sleeping;
    bool stop;
    job *now;                /* written before round is */
    _Atomic int helpers;     /* how many threads the job wants beside the caller */
    _Atomic unsigned round;  /* one more for each job */
    _Atomic int inside;      /* threads that take part; CLOSED: no more may */
    _Atomic unsigned joined; /* threads that have joined this job so far */
} team;

static team *own;         /* made with the first thread; a child leaves its parent's where it is */
static atomic_flag owned; /* by the call whose job it is */

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Waits for a round after the one that was seen; false: there is none any more. */
static bool next_round(team *t, unsigned *seen) {
    const int64_t end = nanoseconds() + spin_ns;
    do
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(&t->round, memory_order_acquire) != *seen)
                goto found;
            pause_briefly();
        }
    while (nanoseconds() < end);
    pthread_mutex_lock(&t->lock);
    t->sleeping++;
    while (!t->stop && atomic_load(&t->round) == *seen)
        pthread_cond_wait(&t->wake, &t->lock);
    t->sleeping--;
    const bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    if (stop)
        return false;
found:
    *seen = atomic_load(&t->round);
    return true;
}

/* Takes part if the job is still open and wants another. A closed job's memory is its caller's again. */
static void join(team *t) {
    int inside = atomic_load(&t->inside);
    do
        if (inside & CLOSED)
            return;
    while (!atomic_compare_exchange_weak(&t->inside, &inside, inside + 1));
    if ((int)atomic_fetch_add(&t->joined, 1) < atomic_load(&t->helpers))
        drain(t->now);
    atomic_fetch_sub(&t->inside, 1);
}

static void *run(void *arg) {
    team *t = arg;
    unsigned seen = 0;
    while (next_round(t, &seen))
        join(t);
    return NULL;
}

/* Signals are for the program's own threads. */
static void grow(team *t, int count) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (t->count < count && t->count < MOST_THREADS && pthread_create(&t->threads[t->count], NULL, run, t) == 0)
        t->count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static team *team_of(int helpers) {
    if (!own) {
        team *t = calloc(1, sizeof *t);
        if (!t)
            return NULL;
        pthread_mutex_init(&t->lock, NULL);
        pthread_cond_init(&t->wake, NULL);
        atomic_store(&t->inside, CLOSED);
        own = t;
    }
    grow(own, helpers);
    return own;
}

static void run_own(job *j, int threads) {
    team *t = atomic_flag_test_and_set(&owned) ? NULL : team_of(threads - 1);
    if (!t) {
        drain(j);
        return;
    }
    t->now = j;
    atomic_store(&t->helpers, threads - 1);
    atomic_store(&t->joined, 0);
    atomic_store(&t->inside, 0);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->round, 1);
    if (t->sleeping)
        pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    drain(j);
    atomic_fetch_or(&t->inside, CLOSED);
    for (int i = 0; atomic_load(&t->inside) != CLOSED; i++)
        i < 1000 ? pause_briefly() : (void)sched_yield();
    atomic_flag_clear(&owned);
}

/* At exit. A thread of the program that is inside a call keeps them; they end with the process. */
__attribute__((destructor)) static void end_threads(void) {
    if (!own || atomic_flag_test_and_set(&owned))
        return;
    team *t = own;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->wake);
    atomic_fetch_add(&t->round, 1); /* for those that spin: the job is closed */
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->count; i++)
        pthread_join(t->threads[i], NULL);
    own = NULL;
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
    atomic_flag_clear(&owned);
}

/* ----------------------------------------------------------------------------------------------------------- forks -- */

static _Thread_local bool threads_at_fork;

static void before_fork(void) {
    struct stat tasks;
    threads_at_fork = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3; /* one thread, . and .. */
}

/* The parent's threads do not exist here, and their team may be in any state. */
static void in_child(void) {
    own = NULL;
    atomic_flag_clear(&owned);
    if (threads_at_fork)
        atomic_store(&orphaned, true);
}

__attribute__((constructor)) static void watch_forks(void) { (void)pthread_atfork(before_fork, NULL, in_child); }

/* ----------------------------------------------------------------------------------------------------------- calls -- */

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
