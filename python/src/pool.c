/* Tasks on the calling thread (pool.h). */
#include "pool.h"

int py_pool_threads(void) { return 1; }

void py_pool_parallel_for(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}
