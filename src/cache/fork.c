/* Forks of the process (cache.h). A child has only the thread that forked: a lock that another one held would stay
 * closed in it forever, and what that lock guards half changed. So a fork waits until no thread looks at lists of
 * pages or states, for which the locks of all caches are in a list. */
#include "cache/cache.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list; taken before those of caches */
static fv_fork_lock *first;

static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void close_all(void) {
    pthread_mutex_lock(&lock);
    for (fv_fork_lock *c = first; c; c = c->next)
        pthread_mutex_lock(c->mutex);
}

static void open_all(void) {
    for (fv_fork_lock *c = first; c; c = c->next)
        pthread_mutex_unlock(c->mutex);
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void) { (void)pthread_atfork(close_all, open_all, open_all); }

void fv_fork_enlist(fv_fork_lock *c, pthread_mutex_t *mutex) {
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&lock);
    c->mutex = mutex;
    c->next = first;
    c->at = &first;
    if (first)
        first->at = &c->next;
    first = c;
    pthread_mutex_unlock(&lock);
}

void fv_fork_delist(fv_fork_lock *c) {
    pthread_mutex_lock(&lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    pthread_mutex_unlock(&lock);
}
