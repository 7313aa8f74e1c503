/* Forks of the process (pool.h). A child has only the thread that forked: a lock that another one held would stay
 * closed in it forever, and what that lock guards half changed. So a fork waits until no thread looks at lists of
 * pages, for which all caches are in a list. */
#include "cache/pool.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list; taken before those of caches */
static fovea_kv_cache *first;

static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void close_all(void) {
    pthread_mutex_lock(&lock);
    for (fovea_kv_cache *c = first; c; c = c->next)
        pthread_mutex_lock(&c->lock);
}

static void open_all(void) {
    for (fovea_kv_cache *c = first; c; c = c->next)
        pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void) { (void)pthread_atfork(close_all, open_all, open_all); }

void fv_cache_enlist(fovea_kv_cache *c) {
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&lock);
    c->next = first;
    c->at = &first;
    if (first)
        first->at = &c->next;
    first = c;
    pthread_mutex_unlock(&lock);
}

void fv_cache_delist(fovea_kv_cache *c) {
    pthread_mutex_lock(&lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    pthread_mutex_unlock(&lock);
}
