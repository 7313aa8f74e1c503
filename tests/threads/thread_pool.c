/* The thread pool of tests: see thread_pool.h. Workers wait for an order each, run their share and count down. */
#include "thread_pool.h"

#include "fp_control.h"
#include "test.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

struct thread_pool {
    pthread_mutex_t one_caller; /* held for a whole job */
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t finished;
    int64_t count;
    void (*task)(void *arg, int64_t index);
    void *arg;
    int working; /* workers that have not finished the job */
    int threads; /* the caller's among them */
    struct worker {
        pthread_t thread;
        pthread_cond_t announced;
        struct thread_pool *pool;
        int number;
        enum { IDLE, WORK, END } order;
    } workers[MOST_THREADS]; /* 0, the caller, is not used */
};

static _Thread_local bool inside;

static void run_share(int64_t first, int64_t step, int64_t count, void (*task)(void *, int64_t), void *arg) {
    const bool outer = inside;
    const int rounding = fegetround();
    const uint64_t flush = fp_control() & FP_FLUSH;
    inside = true;
    for (int64_t i = first; i < count; i += step)
        task(arg, i);
    inside = outer;
    if (fegetround() != rounding || (fp_control() & FP_FLUSH) != flush)
        test_check(false, "a task changed the floating-point mode of its thread");
}

static void *worker(void *data) {
    struct worker *w = data;
    thread_pool *p = w->pool;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (w->order == IDLE)
            pthread_cond_wait(&w->announced, &p->lock);
        if (w->order == END)
            break;
        w->order = IDLE;
        pthread_mutex_unlock(&p->lock);
        run_share(w->number, p->threads, p->count, p->task, p->arg);
        pthread_mutex_lock(&p->lock);
        if (--p->working == 0)
            pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

thread_pool *thread_pool_create(int threads) {
    thread_pool *p = calloc(1, sizeof *p);
    if (p == NULL || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "thread_pool_create(%d) failed\n", threads);
        exit(TEST_FAILED);
    }
    p->threads = threads;
    pthread_mutex_init(&p->one_caller, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->finished, NULL);
    for (int i = 1; i < threads; i++) {
        struct worker *w = &p->workers[i];
        w->pool = p;
        w->number = i;
        pthread_cond_init(&w->announced, NULL);
        if (pthread_create(&w->thread, NULL, worker, w) != 0) {
            fprintf(stderr, "thread_pool_create(%d): no thread\n", threads);
            exit(TEST_FAILED);
        }
    }
    return p;
}

/* Lets the workers up to that number, excluded, do something. The lock is held. */
static void give_order(thread_pool *p, int64_t count, int order) {
    p->working = 0;
    for (int i = 1; i < p->threads && i < count; i++) {
        p->workers[i].order = order;
        p->working++;
        pthread_cond_signal(&p->workers[i].announced);
    }
}

void thread_pool_destroy(thread_pool *p) {
    pthread_mutex_lock(&p->lock);
    give_order(p, p->threads, END);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i < p->threads; i++) {
        pthread_join(p->workers[i].thread, NULL);
        pthread_cond_destroy(&p->workers[i].announced);
    }
    pthread_mutex_destroy(&p->one_caller);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->finished);
    free(p);
}

void thread_pool_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    thread_pool *p = data;
    if (inside) {
        run_share(0, 1, count, task, arg);
        return;
    }
    pthread_mutex_lock(&p->one_caller);
    pthread_mutex_lock(&p->lock);
    p->count = count;
    p->task = task;
    p->arg = arg;
    give_order(p, count, WORK);
    pthread_mutex_unlock(&p->lock);

    run_share(0, p->threads, count, task, arg);

    pthread_mutex_lock(&p->lock);
    while (p->working > 0)
        pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->one_caller);
}

void serial_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)data;
    run_share(0, 1, count, task, arg);
}

void reverse_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)data;
    inside = true;
    for (int64_t i = count - 1; i >= 0; i--)
        task(arg, i);
    inside = false;
}
