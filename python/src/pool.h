/* The threads that the library's tasks run on. */
#ifndef PY_POOL_H
#define PY_POOL_H

#include <stdint.h>

/* How many threads a call uses at most. */
int py_pool_threads(void);

/* A fovea_parallel_for. The GIL is not needed, and may be held. */
void py_pool_parallel_for(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

#endif
