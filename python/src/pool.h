/* The threads that the library's tasks run on: torch's in a process that has loaded torch 2.10 or newer, else those of
 * one pool of the library's. No runtime of OpenMP is linked or loaded. None of this needs the GIL, and it may be
 * held. */
#ifndef PY_POOL_H
#define PY_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* A fovea_parallel_for_fn: calls task(arg, i) once for each i in [0, count), on at most py_pool_threads() threads. From
 * within a task it runs on the calling thread; so does a call made while the pool works for another thread's call. A
 * forked child has a pool of its own, and none of torch's threads if its parent had several threads. */
void py_pool_parallel_for(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

/* How many threads a call may use now: the smaller of py_pool_set_threads() (where unset: OMP_NUM_THREADS as it was at
 * the first call) and torch.set_num_threads(). 0: none of these is set. What the CPUs allow is the context's. */
int py_pool_threads(void);

/* 0: no limit of its own. */
void py_pool_set_threads(int threads);

/* "torch" or "own". */
const char *py_pool_name(void);

/* torch_pool.c: torch's functions of these names, as far as the process has them. */
typedef struct py_torch_pool { /* C functions, and C++ ones by their symbols */
    /* These return 0, or an error if an exception was thrown. */
    int (*parallel_for)(int64_t begin, int64_t end, int64_t grain, void (*range)(int64_t begin, int64_t end, void *arg),
                        void *arg);
    int (*get_num_threads)(uint32_t *threads);
    /* For array_torch.c: all of them, or NULL. A tensor is an at::Tensor, which is a pointer to its c10::TensorImpl. */
    bool (*grad_mode_is_enabled)(void);
    bool (*requires_grad)(const void *implementation);
    bool (*is_neg)(const void *tensor);
    bool (*is_inference)(const void *tensor);
    void (*bump_version)(const void *tensor); /* throws if it is_inference() */
} py_torch_pool;

/* Checks whether libraries were loaded since the last check, which costs some 0.1 us, and looks for torch among them.
 * NULL: no torch with these functions. */
const py_torch_pool *py_torch_pool_find(void);

#endif
