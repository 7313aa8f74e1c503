/* One cache, many threads (fovea/cache.h): each grows, forks, cuts and attends to sequences of its own, which share
 * pages with those of the others; all attend to one that nobody changes. Bits as ever; `make tsan` looks on. Readers do
 * not wait for each other, nor for appends to other sequences. And the process forks while a thread is in the cache
 * nearly all the time: the child goes on with its own. A child that hangs is ended by its alarm. */
#define _POSIX_C_SOURCE 200809L
#include "cache_case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };

typedef struct worker {
    const cache_case *c;
    fovea_kv_cache *cache;
    shadow *common;
    int index;
} worker;

static void *work(void *arg) {
    const worker *w = arg;
    shadow *own = must_alloc(1, sizeof *own), *both[2] = {own, w->common};
    for (int round = 0; round < 4; round++) {
        *own = *w->common;
        test_check(fovea_kv_cache_fork(w->cache, w->common->number, &own->number) == FOVEA_OK, "fork: %s",
                   fovea_error_detail());
        if (w->index % 2) { /* shorter than the page that all share */
            own->length -= 5 + w->index;
            test_check(fovea_kv_cache_truncate(w->cache, own->number, own->length) == FOVEA_OK, "cut: %s",
                       fovea_error_detail());
        }
        for (int i = 0; i < 3; i++) {
            const int64_t tokens = 3 + 20 * i;
            test_check(cache_append(w->cache, &own, 1, &tokens, 10000 * (1 + w->index) + 1000 * round + 100 * i) ==
                           FOVEA_OK,
                       "append: %s", fovea_error_detail());
            cache_check(w->c, w->cache, both, 2, 1, "threads");
        }
        if (round == 2) {
            test_check(fovea_kv_cache_evict(w->cache, own->number, 10, 290) == FOVEA_OK, "evict");
            memset(own->attended + 10, 0, 280);
            cache_check(w->c, w->cache, both, 2, 3, "threads, evicted");
        }
        test_check(fovea_kv_cache_remove(w->cache, own->number) == FOVEA_OK, "remove: %s", fovea_error_detail());
    }
    free(own);
    return NULL;
}

/* Threads of the library that wait in their first job until another call has one, too: calls that wait for each other
 * never meet. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int inside; /* jobs that were begun */
    bool late;
} meeting;

/* Waits until that many jobs were begun, or for long. */
static void wait_for(meeting *m, int jobs) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    pthread_mutex_lock(&m->lock);
    while (m->inside < jobs && !m->late)
        m->late = pthread_cond_timedwait(&m->changed, &m->lock, &end) != 0;
    pthread_mutex_unlock(&m->lock);
}

static void meet(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    meeting *m = data;
    pthread_mutex_lock(&m->lock);
    m->inside++;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    wait_for(m, 2);
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

static void *read_common(void *arg) {
    const worker *w = arg;
    shadow *common = w->common;
    cache_check(w->c, w->cache, &common, 1, 1, "readers meet");
    return NULL;
}

static void *append_own(void *arg) {
    const worker *w = arg;
    shadow *own = must_alloc(1, sizeof *own);
    const int64_t tokens = CACHE_LONGEST;
    own->length = 0;
    test_check(fovea_kv_cache_add(w->cache, &own->number) == FOVEA_OK, "add: %s", fovea_error_detail());
    test_check(cache_append(w->cache, &own, 1, &tokens, 70000) == FOVEA_OK, "append: %s", fovea_error_detail());
    free(own);
    return NULL;
}

/* While one reads, or appends to another sequence, and is at work, a second begins and is at work, too. */
static void check_meetings(cache_case c) {
    static const struct {
        const char *what;
        void *(*first)(void *), *(*second)(void *);
    } pairs[] = {{"a reader for a reader", read_common, read_common},
                 {"a reader for one who appends", append_own, read_common},
                 {"one who appends for a reader", read_common, append_own}};
    const int64_t tokens = 700;
    for (int i = 0; i < 3; i++) {
        meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .inside = 2};
        fovea_context_options options;
        fovea_context *ctx;
        shadow *common = must_alloc(1, sizeof *common);
        pthread_t thread;
        common->length = 0;
        fovea_context_options_init(&options);
        options.parallel_for = meet;
        options.pool = &m;
        options.threads = 2;
        options.tuning_file = "";
        test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
        c.ctx = ctx;
        fovea_kv_cache *cache = cache_make(&c);
        test_check(fovea_kv_cache_add(cache, &common->number) == FOVEA_OK, "add: %s", fovea_error_detail());
        test_check(cache_append(cache, &common, 1, &tokens, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
        m.inside = 0;
        worker w = {&c, cache, common, i};
        if (pthread_create(&thread, NULL, pairs[i].first, &w) != 0)
            abort();
        wait_for(&m, 1);
        pairs[i].second(&w);
        pthread_join(thread, NULL);
        test_check(m.inside >= 2 && !m.late, "%s waits", pairs[i].what);
        fovea_kv_cache_destroy(cache);
        fovea_context_destroy(ctx);
        free(common);
    }
}

static atomic_bool stop;

static void *fork_and_remove(void *arg) {
    const worker *w = arg;
    bool good = true;
    while (!stop) {
        int64_t fork;
        good = fovea_kv_cache_fork(w->cache, w->common->number, &fork) == FOVEA_OK &&
               fovea_kv_cache_remove(w->cache, fork) == FOVEA_OK && good;
    }
    test_check(good, "a sequence could not be forked or removed");
    return NULL;
}

/* The work of a thread, and the cache's end. */
static int work_in_child(worker *w) {
    alarm(20);
    work(w);
    fovea_kv_cache_destroy(w->cache);
    return test_end();
}

static void check_forks(worker *w) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, fork_and_remove, w) != 0)
        abort();
    bool good = true;
    for (int i = 0; good && i < 4; i++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            _exit(work_in_child(w));
        int status = -1;
        const bool ended = waitpid(child, &status, 0) == child;
        good = test_check(ended && status == 0, "child %d of a process whose other thread is in the cache: status 0x%x",
                          i, (unsigned)status);
    }
    stop = true;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "cache_threads", NULL);
    const case_contexts x = contexts_make();
    cache_case c = cache_case_make(x.one, x.scalar);
    c.max_pages = 80;
    fovea_kv_cache *cache = cache_make(&c);
    shadow *common = must_alloc(1, sizeof *common);
    const int64_t tokens = 400;
    common->length = 0;
    test_check(fovea_kv_cache_add(cache, &common->number) == FOVEA_OK, "add: %s", fovea_error_detail());
    test_check(cache_append(cache, &common, 1, &tokens, 1) == FOVEA_OK, "append: %s", fovea_error_detail());
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){&c, cache, common, i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_meetings(c);
    check_forks(&workers[0]);
    cache_check(&c, cache, &common, 1, 9, "after all threads");
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    test_check(fovea_kv_cache_stats(cache, &stats) == FOVEA_OK && stats.used_pages == 2 * CACHE_LAYERS &&
                   stats.shared_pages == 0,
               "%d pages are left, %d shared", (int)stats.used_pages, (int)stats.shared_pages);
    fovea_kv_cache_destroy(cache);
    free(common);
    contexts_free(&x);
    return test_end();
}
