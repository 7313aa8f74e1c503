/* The one seam to threads. */
#ifndef FV_PARALLEL_H
#define FV_PARALLEL_H

#include "fovea/fovea.h"
#include "threads/system.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Where tasks run: in the caller's pool or one of the library's own, or in OpenMP's team where parallel_for is NULL. */
typedef struct fv_threads {
    int count; /* most tasks at once; OpenMP's team always has as many members, for as long as OpenMP would use them */
    fovea_parallel_for_fn parallel_for;
    void *pool;
    const struct fv_nodes *nodes; /* those that threads of the library's pool are bound to; NULL: none */
} fv_threads;

/* task(arg, i) for each i. enter(arg) and leave(arg), or NULL, are for the state of a thread: a thread that runs tasks
 * calls them once, before its first and after its last. */
typedef struct fv_work {
    void (*task)(void *arg, int64_t index);
    void (*enter)(void *arg);
    void (*leave)(void *arg);
    void *arg;
} fv_work;

/* Runs tasks [0, count), count <= threads->count, each once and under the calling thread's floating-point mode. Called
 * from within a task or a parallel region of OpenMP, it runs them one after another on the calling thread; so it does,
 * instead of OpenMP, in a child whose parent had more than one thread when it forked. */
void fv_parallel(const fv_threads *threads, int64_t count, const fv_work *work);

/* Claims the next of count items from a counter that the tasks of a call share: [first, *end) with first returned,
 * empty when none is left. Many at first and single ones at last, so that a task knows what it does next and none waits
 * long for the others; a claim waits for all memory written before it. */
int64_t fv_claim(_Atomic int64_t *next, int64_t count, int64_t tasks, int64_t *end);

/* OpenMP's settings for a region of the calling thread; built without it, those of its variables, or 0. */
typedef struct fv_openmp {
    bool built;
    int most;  /* OMP_NUM_THREADS, omp_set_num_threads() or a CPU each */
    int limit; /* OMP_THREAD_LIMIT */
} fv_openmp;

fv_openmp fv_threads_of_openmp(void);

/* The CPUs of the places to which OpenMP binds threads (OMP_PROC_BIND, OMP_PLACES), a bit each; false: it binds none.
 * Of a bound thread, that which starts the process among them, the affinity mask is one of these places. */
bool fv_parallel_places(uint64_t set[FV_NODE_CPUS / 64]);

/* ------------------------------------------------------------------------------------------------------ nodes.c -- */

enum { FV_NODES = 32 };

/* A node of memory (NUMA). */
typedef struct fv_node {
    int number;                      /* as the system counts */
    int cpus;                        /* of this process */
    bool memory;                     /* does it have any? */
    uint64_t set[FV_NODE_CPUS / 64]; /* these CPUs, as the system takes them */
} fv_node;

/* All that are online, ascending, at most FV_NODES. Below, a node is an index into these. */
typedef struct fv_nodes {
    int count, with_cpus, cpus; /* cpus: of all */
    fv_node node[FV_NODES];
} fv_nodes;

/* The node to which the index-th of count things belongs: each thread has an equal part of them, one behind the other,
 * as thread i of t->count has the i-th, and each node as many threads as its share of CPUs. */
int fv_node_of(const fv_threads *t, int64_t index, int64_t count);

/* The node that the calling thread runs on. */
int fv_node_here(const fv_nodes *nodes);

/* Binds the calling thread to a node's CPUs; false: the system does not let it. */
bool fv_node_bind(const fv_nodes *nodes, int node);

/* Gives parts [first, end) of memory, part bytes each, to a node, whatever node they had. Their content is lost.
 * For it the calling thread is bound there. false: the system does not let it. */
bool fv_node_place(const fv_nodes *nodes, int node, void *memory, int64_t part, int64_t first, int64_t end);

/* ------------------------------------------------------------------------------------------------------- fork.c -- */

/* A lock that forks of the process wait for, until it is taken out. */
typedef struct fv_fork_lock {
    fv_mutex *mutex;
    struct fv_fork_lock *next, **at;
} fv_fork_lock;
void fv_fork_enlist(fv_fork_lock *lock, fv_mutex *mutex);
void fv_fork_delist(fv_fork_lock *lock);

extern atomic_uint fv_forks;    /* one more in a forked child */
extern atomic_bool fv_orphaned; /* had the parent a team of OpenMP's, perhaps? */

/* ------------------------------------------------------------------------------------------------------- pool.c -- */

/* Before a pool's first call: threads are bound to the nodes of t, which outlive the pool, as far as the system still
 * lets them be. */
void fv_pool_bind(fovea_thread_pool *pool, const fv_threads *t);

#endif
