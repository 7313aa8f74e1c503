/* Threads, locks, forks and the clock of the system: the one seam. Inline or in system_posix.c, and in
 * system_windows.c. A system that does not tell or allow something, as Linux does, has answers that say so. */
#ifndef FV_THREADS_SYSTEM_H
#define FV_THREADS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FV_NODE_CPUS = 8192 };

#ifdef _WIN32

typedef struct fv_mutex {
    void *word; /* an SRWLOCK */
} fv_mutex;

typedef struct fv_condition {
    void *word; /* a CONDITION_VARIABLE */
} fv_condition;

typedef void *fv_thread;

#define FV_MUTEX_READY                                                                                                 \
    { NULL }

static inline bool fv_mutex_init(fv_mutex *m) { return m->word = NULL, true; }
static inline void fv_mutex_destroy(fv_mutex *m) { (void)m; }
void fv_mutex_lock(fv_mutex *m);
bool fv_mutex_try(fv_mutex *m);
void fv_mutex_unlock(fv_mutex *m);

static inline void fv_condition_init(fv_condition *c) { c->word = NULL; }
static inline void fv_condition_destroy(fv_condition *c) { (void)c; }
void fv_condition_wait(fv_condition *c, fv_mutex *m);
void fv_condition_signal(fv_condition *c);
void fv_condition_broadcast(fv_condition *c);

void fv_thread_join(fv_thread thread);

static inline void fv_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)before, (void)in_parent, (void)in_child; /* processes do not fork */
}

#else
#include <pthread.h>

typedef pthread_mutex_t fv_mutex;
typedef pthread_cond_t fv_condition;
typedef pthread_t fv_thread;

#define FV_MUTEX_READY PTHREAD_MUTEX_INITIALIZER

static inline bool fv_mutex_init(fv_mutex *m) { return pthread_mutex_init(m, NULL) == 0; }
static inline void fv_mutex_destroy(fv_mutex *m) { pthread_mutex_destroy(m); }
static inline void fv_mutex_lock(fv_mutex *m) { pthread_mutex_lock(m); }
static inline bool fv_mutex_try(fv_mutex *m) { return pthread_mutex_trylock(m) == 0; }
static inline void fv_mutex_unlock(fv_mutex *m) { pthread_mutex_unlock(m); }

static inline void fv_condition_init(fv_condition *c) { pthread_cond_init(c, NULL); }
static inline void fv_condition_destroy(fv_condition *c) { pthread_cond_destroy(c); }
static inline void fv_condition_wait(fv_condition *c, fv_mutex *m) { pthread_cond_wait(c, m); }
static inline void fv_condition_signal(fv_condition *c) { pthread_cond_signal(c); }
static inline void fv_condition_broadcast(fv_condition *c) { pthread_cond_broadcast(c); }

static inline void fv_thread_join(fv_thread thread) { pthread_join(thread, NULL); }

/* Calls these at each fork from now on. Constructors register: the program may fork before it calls the library. */
static inline void fv_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)pthread_atfork(before, in_parent, in_child);
}

#endif

/* Starts up to count threads that run run(arg); how many started. Signals are for the program's own threads, but for
 * those that a thread causes itself, and profilers'. */
int fv_threads_start(fv_thread *threads, int count, void *(*run)(void *arg), void *arg);

/* May the process have more than one thread? */
bool fv_threads_other(void);

int64_t fv_nanoseconds(void);

/* The CPU that the calling thread is on; -1: not known. */
int fv_cpu_here(void);

/* The CPUs that the calling thread may use, a bit each; false: the system does not tell,
 * or let it; no thread has an empty set. */
bool fv_cpus_get(uint64_t set[FV_NODE_CPUS / 64]);
bool fv_cpus_set(const uint64_t set[FV_NODE_CPUS / 64]);

/* Pages wholly inside get lost, and come from the node of the thread that touches them next. *page: their size. */
bool fv_pages_drop(char *memory, size_t bytes, size_t *page);

#endif
