/* The library's own pool (threads.h): threads that spin briefly, then sleep.
 *
 * A call is a job: a counter of indices, claimed by whoever takes part. The calling thread takes part from the start,
 * so a call waits for no thread that wakes up late, only for indices that others have claimed and still run. The first
 * call that wants threads makes them. Without work they spin for spin_ns, since calls often come one upon the other,
 * then sleep. A caller that waits for them does the same: a thread may have lost its CPU to other work.
 *
 * One call at a time has the threads. A forked child has none of its parent's, and finds the pool in any state: owner
 * tells how many forks there had been when it was set up. */
#include "threads/threads.h"

#include "core/core.h"

#include <stdlib.h>

/* Longer keeps CPUs from other work; shorter makes the next call of a model's layers wake threads, at some 50 us each
 * (docs/lab/threads.md). */
enum { SPIN_US = 20 };

enum { CLOSED = 1 << 30, CACHE_LINE = 64 };

typedef struct job {
    void (*task)(void *arg, int64_t index);
    void *arg;
    int64_t count;
    _Atomic int64_t next;
} job;

struct fovea_thread_pool {
    int64_t spin_ns;
    const fv_threads *bound; /* whose nodes threads are bound to, or NULL */
    _Atomic int begun;       /* threads, of these */
    _Atomic unsigned owner;  /* 2 * forks, and 1 more while a call has the threads */
    fv_mutex lock;           /* of sleeping */
    fv_condition wake, ended;
    int most, count; /* threads without the caller, and those made so far */
    _Atomic bool stop;
    _Atomic int sleeping;   /* threads */
    _Atomic bool waiting;   /* the caller sleeps until they have ended */
    job *now;               /* written before inside is */
    _Atomic int cpu;        /* of the caller */
    char line[CACHE_LINE];  /* spinning threads read what follows: apart from what calls write */
    _Atomic unsigned round; /* one more for each job */
    _Atomic int inside;     /* threads that take part; CLOSED: no more may */
    fv_thread threads[];
};

static void drain(job *j) {
    int64_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->count)
        j->task(j->arg, i);
}

/* ------------------------------------------------------------------------------------------------------- waiting -- */

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static bool new_round(fovea_thread_pool *p, unsigned seen) { return atomic_load(&p->round) != seen; }

static bool all_out(fovea_thread_pool *p, unsigned unused) {
    (void)unused;
    return atomic_load(&p->inside) == CLOSED;
}

/* Spins until it is so, or for spin_ns; was it so? */
static bool spin(fovea_thread_pool *p, bool (*so)(fovea_thread_pool *p, unsigned seen), unsigned seen) {
    const int64_t end = fv_nanoseconds() + p->spin_ns;
    do
        for (int i = 0; i < 16; i++) {
            if (so(p, seen))
                return true;
            pause_briefly();
        }
    while (fv_nanoseconds() < end);
    return false;
}

static void flip(uint64_t *set, int cpu) { set[cpu / 64] ^= UINT64_C(1) << cpu % 64; }

/* A thread that woke up on the caller's CPU goes to another. There it would spin while the caller waits for its turn,
 * and the kernel parts them only after some milliseconds. */
static void leave(int cpu) {
    uint64_t set[FV_NODE_CPUS / 64];
    if (cpu < 0 || fv_cpu_here() != cpu || !fv_cpus_get(set))
        return;
    flip(set, cpu);
    if (fv_cpus_set(set)) {
        flip(set, cpu);
        (void)fv_cpus_set(set);
    }
}

/* Waits for a round after the one that was seen; false: there is none any more. */
static bool next_round(fovea_thread_pool *p, unsigned *seen) {
    if (!spin(p, new_round, *seen)) {
        fv_mutex_lock(&p->lock);
        atomic_fetch_add(&p->sleeping,
                         1); /* before it looks for the last time; a caller does both the other way round */
        while (!atomic_load(&p->stop) && !new_round(p, *seen))
            fv_condition_wait(&p->wake, &p->lock);
        atomic_fetch_sub(&p->sleeping, 1);
        fv_mutex_unlock(&p->lock);
        leave(atomic_load(&p->cpu));
    }
    *seen = atomic_load(&p->round);
    return !atomic_load(&p->stop);
}

/* Threads hold the lock for moments, and most do when all fall asleep together; but one may have lost its CPU. */
static bool lock_soon(fovea_thread_pool *p) {
    for (int i = 0; i < 64; i++) {
        if (fv_mutex_try(&p->lock))
            return true;
        pause_briefly();
    }
    return false;
}

/* Wakes the threads that the job wants in addition to those awake. Without the lock, the call goes on with these. */
static void wake(fovea_thread_pool *p, int helpers) {
    if (atomic_load(&p->sleeping) == 0 || !lock_soon(p))
        return;
    for (int awake = p->count - atomic_load(&p->sleeping); awake < helpers; awake++)
        fv_condition_signal(&p->wake);
    fv_mutex_unlock(&p->lock);
}

/* Closes the job and waits for those that take part. */
static void close_job(fovea_thread_pool *p) {
    atomic_fetch_or(&p->inside, CLOSED);
    if (spin(p, all_out, 0))
        return;
    fv_mutex_lock(&p->lock);
    atomic_store(&p->waiting, true); /* as sleeping */
    while (!all_out(p, 0))
        fv_condition_wait(&p->ended, &p->lock);
    atomic_store(&p->waiting, false);
    fv_mutex_unlock(&p->lock);
}

/* ------------------------------------------------------------------------------------------------------- threads -- */

/* Takes part if the job is still open. A closed job's memory is its caller's again. */
static void join(fovea_thread_pool *p) {
    int inside = atomic_load(&p->inside);
    do
        if (inside & CLOSED)
            return;
    while (!atomic_compare_exchange_weak(&p->inside, &inside, inside + 1));
    drain(p->now);
    if (atomic_fetch_sub(&p->inside, 1) == CLOSED + 1 && atomic_load(&p->waiting)) {
        fv_mutex_lock(&p->lock);
        fv_condition_signal(&p->ended);
        fv_mutex_unlock(&p->lock);
    }
}

/* OpenMP may have bound the thread that makes the pool's, which then would have its CPU only. */
static void unbind(void) {
    uint64_t set[FV_NODE_CPUS / 64];
    if (fv_parallel_places(set))
        (void)fv_cpus_set(set);
}

static void *run(void *pool) {
    unsigned seen = 0;
    fovea_thread_pool *p = pool;
    if (p->bound) /* as thread 0 the caller counts */
        (void)fv_node_bind(p->bound->nodes, fv_node_of(p->bound, 1 + atomic_fetch_add(&p->begun, 1), p->bound->count));
    else
        unbind();
    while (next_round(pool, &seen))
        join(pool);
    return NULL;
}

/* Fewer where the system gives no more: it is not asked again. */
static void grow(fovea_thread_pool *p, int count) {
    const int wanted = (count < p->most ? count : p->most) - p->count;
    if (wanted <= 0)
        return;
    const int started = fv_threads_start(&p->threads[p->count], wanted, run, p);
    p->count += started;
    if (started < wanted)
        p->most = p->count;
}

/* --------------------------------------------------------------------------------------------------------- calls -- */

static void set_up(fovea_thread_pool *p) {
    fv_mutex_init(&p->lock);
    fv_condition_init(&p->wake);
    fv_condition_init(&p->ended);
    p->count = 0;
    atomic_store(&p->begun, 0);
    atomic_store(&p->stop, false);
    atomic_store(&p->sleeping, 0);
    atomic_store(&p->waiting, false);
    atomic_store(&p->inside, CLOSED);
}

static bool take(fovea_thread_pool *p) {
    const unsigned idle = 2 * atomic_load(&fv_forks);
    unsigned before = atomic_load(&p->owner);
    if (before == idle + 1 || !atomic_compare_exchange_strong(&p->owner, &before, idle + 1))
        return false;
    if (before != idle)
        set_up(p);
    return true;
}

void fovea_thread_pool_run(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    fovea_thread_pool *p = pool;
    job j = {.task = task, .arg = arg, .count = count};
    if (count <= 1 || !take(p)) {
        drain(&j);
        return;
    }
    const int helpers = (int)(count - 1 < p->most ? count - 1 : p->most);
    grow(p, helpers);
    p->now = &j;
    atomic_store(&p->cpu, fv_cpu_here());
    atomic_store(&p->inside, 0);
    atomic_fetch_add(&p->round, 1);
    wake(p, helpers < p->count ? helpers : p->count);
    drain(&j);
    close_job(p);
    atomic_fetch_sub(&p->owner, 1);
}

fovea_status fovea_thread_pool_create(int threads, int spin_us, fovea_thread_pool **pool) {
    if (!pool)
        return fv_fail(FOVEA_ERROR_NULL, "pool is NULL");
    *pool = NULL;
    if (threads < 1 || spin_us < 0 || spin_us > 1000000)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "threads is %d, spin_us %d; they must be at least 1, and from 0 to 1000000 (0: the default)",
                       threads, spin_us);
    const int most = threads - 1;
    fovea_thread_pool *p = calloc(1, sizeof *p + (size_t)most * sizeof p->threads[0]);
    if (!p)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a pool of %d threads", threads);
    p->most = most;
    p->spin_ns = INT64_C(1000) * (spin_us ? spin_us : SPIN_US);
    *pool = p;
    return FOVEA_OK;
}

void fv_pool_bind(fovea_thread_pool *p, const fv_threads *t) { p->bound = t; }

void fovea_thread_pool_destroy(fovea_thread_pool *p) {
    FV_HOLD_CANCELLATION(); /* fv_thread_join() */
    if (p && atomic_load(&p->owner) == 2 * atomic_load(&fv_forks)) {
        fv_mutex_lock(&p->lock);
        atomic_store(&p->stop, true);
        fv_condition_broadcast(&p->wake);
        atomic_fetch_add(&p->round, 1); /* for those that spin: the job is closed */
        fv_mutex_unlock(&p->lock);
        for (int i = 0; i < p->count; i++)
            fv_thread_join(p->threads[i]);
        fv_condition_destroy(&p->ended);
        fv_condition_destroy(&p->wake);
        fv_mutex_destroy(&p->lock);
    }
    free(p);
}
