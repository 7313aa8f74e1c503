/* A small thread pool, as a caller of the library may have one: the parallel_for of tests.
 *
 * Use: thread_pool *p = thread_pool_create(7); options.parallel_for = thread_pool_parallel_for; options.pool = p; ...
 * thread_pool_destroy(p);
 *
 * Index i always runs on thread i modulo the pool's size (thread 0 is the caller's), so that all threads really take
 * part whatever the machine. Calls from several threads wait for each other; a call from within a task runs serially. A
 * task that leaves its thread with another rounding mode or flush-to-zero setting than it found is counted as a failed
 * check. */
#ifndef FOVEA_TESTS_THREAD_POOL_H
#define FOVEA_TESTS_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct thread_pool thread_pool;

/* Ends the program if threads cannot be made. */
thread_pool *thread_pool_create(int threads);
void thread_pool_destroy(thread_pool *p);

/* A fovea_parallel_for_fn; data is the pool. */
void thread_pool_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

/* Others, for which data is not used: one index after another on the calling thread, first to last and last to
 * first. */
void serial_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg);
void reverse_parallel_for(void *data, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

#endif
