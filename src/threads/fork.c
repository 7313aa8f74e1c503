/* Forks of the process (threads.h). A child has only the thread that forked: a lock that another one held would stay
 * closed in it forever, and what that lock guards half changed. So a fork waits until no thread looks at what a lock of
 * the list guards.
 *
 * libgomp does not know of forks: in a child whose parent had a team, the library's or the program's own, it waits for
 * that team's threads, forever. A parent of one thread at the fork had none. Where that cannot be told, the child runs
 * no team. */
#include "threads/threads.h"

atomic_uint fv_forks = 1; /* a new pool has 0 */
atomic_bool fv_orphaned;

static fv_mutex lock = FV_MUTEX_READY; /* of the list; taken before those in it */
static fv_fork_lock *first;
#ifdef _OPENMP
static bool threads_at_fork;
#endif

static void before_fork(void) {
    fv_mutex_lock(&lock);
#ifdef _OPENMP
    threads_at_fork = fv_threads_other();
#endif
    for (fv_fork_lock *c = first; c; c = c->next)
        fv_mutex_lock(c->mutex);
}

static void in_parent(void) {
    for (fv_fork_lock *c = first; c; c = c->next)
        fv_mutex_unlock(c->mutex);
    fv_mutex_unlock(&lock);
}

static void in_child(void) {
    atomic_fetch_add(&fv_forks, 1);
#ifdef _OPENMP
    if (threads_at_fork)
        atomic_store(&fv_orphaned, true);
#endif
    in_parent();
}

__attribute__((constructor)) static void watch_forks(void) { fv_at_fork(before_fork, in_parent, in_child); }

void fv_fork_enlist(fv_fork_lock *c, fv_mutex *mutex) {
    fv_mutex_lock(&lock);
    c->mutex = mutex;
    c->next = first;
    c->at = &first;
    if (first)
        first->at = &c->next;
    first = c;
    fv_mutex_unlock(&lock);
}

void fv_fork_delist(fv_fork_lock *c) {
    fv_mutex_lock(&lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    fv_mutex_unlock(&lock);
}
