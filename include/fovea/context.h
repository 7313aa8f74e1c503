/* Fovea: contexts: tier, threads, tuning file, environment. Part of fovea.h. */
#ifndef FOVEA_CONTEXT_H
#define FOVEA_CONTEXT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tiers: the instruction-set levels for which kernels exist. Within an architecture a higher number is preferred, and a
 * CPU also has all tiers below its own. */
typedef enum fovea_isa {
    FOVEA_ISA_BEST = 0,   /* an option: the best tier that CPU, operating system and FOVEA_ISA allow */
    FOVEA_ISA_SCALAR = 1, /* portable C */
    FOVEA_ISA_AVX2 = 2,   /* AVX2 and FMA3 */
    FOVEA_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL */
    FOVEA_ISA_NEON = 4    /* NEON (Advanced SIMD): every 64-bit Arm CPU */
} fovea_isa;

/* "scalar", "avx2", ...: the words that FOVEA_ISA takes; "unknown" for any other value. Static string. Thread-safe. */
FOVEA_API const char *fovea_isa_name(fovea_isa isa);

/* A caller's own thread pool. It must call task(arg, i) exactly once for each i in [0, count), on any threads, in any
 * order, in parallel or not, and return when all have returned. count is at most the context's number of threads. */
typedef void (*fovea_parallel_for_fn)(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

/* Whose threads a context without a parallel_for uses. No bit of any result depends on it.
 *   OPENMP  The threads of the program's OpenMP runtime, which also runs the program's own parallel regions. The
 *           runtime decides how long idle threads spin. Best if each thread has a CPU of its own. If other work needs
 *           the same CPUs, it is several times slower than POOL, unless OMP_WAIT_POLICY=passive is set.
 *   POOL    The context's own threads. Idle threads spin for some microseconds, then sleep. Best if other work shares
 *           the CPUs, and in programs without OpenMP. The first call that needs threads creates them, also in a forked
 *           child. fovea_context_destroy() joins them. If the system cannot create all of them, the pool runs with
 *           fewer. Only one call at a time uses them: a concurrent call on the same context runs on its calling thread.
 *           To run several calls at once on several threads each, give each caller a context.
 * Calls are no cancellation points: a thread that pthread_cancel() meets in a call ends at its first cancellation point
 * after the call. It must not have PTHREAD_CANCEL_ASYNCHRONOUS. */
typedef enum fovea_threads_backend {
    FOVEA_THREADS_DEFAULT = 0, /* OPENMP; POOL in a build without OpenMP */
    FOVEA_THREADS_OPENMP = 1,  /* FOVEA_ERROR_UNSUPPORTED in a build without OpenMP */
    FOVEA_THREADS_POOL = 2
} fovea_threads_backend;

/* Are threads bound to CPUs? No bit of any result depends on it.
 *   NONE   They run where the system lets them run.
 *   NODES  Each thread of the context's POOL is bound to the CPUs of one node of memory (NUMA: a socket, or part of
 *          one), among those of the affinity mask. Nodes have threads in proportion to their CPUs. The calling thread
 *          is never bound; it counts as one of the first node. Work on weights and caches that are placed by node goes
 *          to the threads of that node first, and to others when these have nothing else to do. On a machine with one
 *          node it changes nothing. */
typedef enum fovea_threads_bind { FOVEA_BIND_NONE = 0, FOVEA_BIND_NODES = 1 } fovea_threads_bind;

/* Where the pages of packed weights (fovea_linear_desc) or of a cache (fovea_kv_cache_desc) are, if the machine has
 * several nodes of memory. No bit of any result depends on it. Memory is used when the object is created, all of it.
 * docs/nodes.md says when to use which. On a machine with one node all are DEFAULT, whose number, for NODE, is that of
 * the system, or 0.
 *   DEFAULT  On the node of whichever thread touches a page first.
 *   NODE     On the node with the system's number `placement_node`, which must have memory, and CPUs of the affinity
 *            mask.
 *   SPREAD   Output columns, or key heads, are divided among nodes in proportion to their threads.
 *   COPIES   A copy of the weights on each node that has threads. Not for caches.
 * SPREAD and COPIES need threads that are bound (FOVEA_BIND_NODES). FOVEA_ERROR_ARGUMENT: no such node, or a node given
 * with a placement other than NODE. FOVEA_ERROR_UNSUPPORTED: one that cannot be honoured. */
typedef enum fovea_placement {
    FOVEA_PLACEMENT_DEFAULT = 0,
    FOVEA_PLACEMENT_NODE = 1,
    FOVEA_PLACEMENT_SPREAD = 2,
    FOVEA_PLACEMENT_COPIES = 3
} fovea_placement;

typedef struct fovea_context_options {
    size_t struct_size;
    fovea_isa isa;                         /* the highest tier to use; default FOVEA_ISA_BEST */
    const char *tuning_file;               /* default NULL: searched for, see fovea_context_create(); "": none */
    int threads;                           /* at most this many; default 0: no limit */
    fovea_threads_backend threads_backend; /* default FOVEA_THREADS_DEFAULT, the only one allowed with a parallel_for */
    int pool_spin_us;                      /* POOL: how long idle threads spin, at most 1,000,000; default 0: 20 */
    fovea_parallel_for_fn parallel_for;    /* default NULL: threads_backend decides */
    void *pool;                            /* passed to parallel_for */
    /* Default FOVEA_BIND_NONE. FOVEA_BIND_NODES gives FOVEA_ERROR_ARGUMENT without POOL, and FOVEA_ERROR_UNSUPPORTED if
     * there are several nodes and the system does not let threads be bound. */
    fovea_threads_bind threads_bind;
    int reserved; /* 0 */
} fovea_context_options;
FOVEA_DEFINE_INIT(fovea_context_options_init, fovea_context_options, FOVEA_STRUCT_CONTEXT_OPTIONS)

/* A tier and a number of threads. Immutable: any number of threads may use one at once. Contexts with different tiers
 * may live in one process. A context must outlive its plans, layers and caches, but not
 * its linear maps. */
typedef struct fovea_context fovea_context;

/* Creates a context. options may be NULL: all defaults. Thread-safe.
 *
 * The environment is read here and nowhere else. An unknown word in the first four gives FOVEA_ERROR_ENVIRONMENT:
 *   FOVEA_ISA=scalar|avx2|avx512|neon  caps the tier. If the CPU lacks that tier, the best one below it is used. A tier
 *                     of another architecture leaves portable C.
 *   FOVEA_ARITHMETIC=exact|bf16|bf16_tile|fastest  what FOVEA_ARITHMETIC_FASTEST takes for the types that this
 *                     arithmetic is defined for. For other types it takes exact. fastest: the library chooses.
 *                     Arithmetics that are asked for by name are unaffected.
 *   FOVEA_THREADS_BACKEND=openmp|pool  overrides threads_backend. Ignored with a parallel_for. openmp is an error in a
 *                     build without OpenMP.
 *   FOVEA_THREADS_BIND=none|nodes  overrides threads_bind. Binds no threads but those of a POOL: fovea_context_info()
 *                     says whether threads are bound.
 *   FOVEA_DEBUG=1     prints to stderr what was chosen and why, for the context and for each plan and linear map.
 *   FOVEA_LOG_SHAPES=file  appends a line for each executed shape, for fovea-tune to read (at most 1 MiB). If the file
 *                     cannot be written, only FOVEA_DEBUG=1 says so.
 *   FOVEA_TUNING_FILE, FOVEA_KNOWN_CPUS see below.
 *
 * Tuning file: options->tuning_file, else FOVEA_TUNING_FILE, else the first that exists of $XDG_CACHE_HOME/fovea/tuning
 * ($HOME/.cache/fovea/tuning if XDG_CACHE_HOME is unset) and /etc/fovea/tuning, or on Windows of
 * %LOCALAPPDATA%\fovea\tuning and %PROGRAMDATA%\fovea\tuning. An empty name means none. The file can change speed, but
 * no bit of any result. A damaged, incompatible or unsafe file is not an error here: the defaults are
 * used, and fovea_context_info() says why.
 *
 * Rows for known CPUs ship with the library, in share/fovea/1/known-cpus.tuning of its install tree, where 1 is the
 * version in the library's SONAME. They serve what the tuning file has no row for, on machines of the same model, tier
 * and features, whatever their caches and cores.
 * FOVEA_KNOWN_CPUS names another file, or none if it is empty. Where the tuning file is "", they are not used either.
 *
 * Number of threads: the smallest of options->threads, the affinity mask, the cgroup quota, and what OpenMP would use
 * for a region of the calling thread (OMP_NUM_THREADS, omp_set_num_threads(), OMP_THREAD_LIMIT). This holds for POOL,
 * too. With a parallel_for it is options->threads, or if that is 0 the smaller of mask and quota. If
 * omp_set_num_threads() later asks for fewer, calls on OpenMP's threads use fewer. They never use more. */
FOVEA_API fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx);

/* Frees a context. Nothing created from it may be used afterwards but linear maps, by another context. */
FOVEA_API void fovea_context_destroy(fovea_context *ctx);

typedef struct fovea_context_facts {
    size_t struct_size;

    /* The CPU. */
    char cpu[64];       /* its name */
    char features[192]; /* beyond the tier, that kernels may use: "f16c, avx512_bf16"; or "" */
    int64_t l1d_bytes;  /* data caches as plans see them: after sanity checks, with fallbacks */
    int64_t l2_bytes;

    /* Choices of the context. */
    fovea_isa isa; /* the tier in use */
    int threads;   /* the most that an execution uses, see fovea_context_create() */
    /* The arithmetic that FOVEA_ARITHMETIC_FASTEST means for bfloat16. For all other types it means EXACT. */
    fovea_arithmetic fastest_attention, fastest_linear;
    char reason[512]; /* why this tier and none above it, whose threads, and why this many */

    /* The tuning file. */
    fovea_status tuning_status; /* FOVEA_OK if it is used, or if there is none; of the rows that ship likewise */
    int tuning_rows;            /* how many rows this context may use, with those that ship */
    char tuning[512];           /* which files, or what is wrong with them */

    /* Nodes of memory (NUMA). */
    int node_count;    /* those with CPUs in the affinity mask; 1 if the system names none */
    int threads_bound; /* nonzero: threads are bound to nodes */
    char nodes[256];   /* whether and why not, and the CPUs and memory of each node, cut after 255 bytes */
} fovea_context_facts;
FOVEA_DEFINE_INIT(fovea_context_facts_init, fovea_context_facts, FOVEA_STRUCT_CONTEXT_FACTS)

/* Fills *facts. Thread-safe. */
FOVEA_API fovea_status fovea_context_info(const fovea_context *ctx, fovea_context_facts *facts);

/* Runs task(arg, i) once for each i in [0, count) on the context's threads, in any order. Returns when all tasks have
 * returned. Use it for your own work between calls, or for whole chains of calls. A call inside a task runs on the
 * task's thread, or on all threads if count is 1. Tasks have the caller's rounding mode and flush-to-zero setting. A
 * child process that a task forks must not return from the task, because it has none of the other threads. After an
 * error no task has run. Thread-safe. */
FOVEA_API fovea_status fovea_parallel(const fovea_context *ctx, int64_t count, void (*task)(void *arg, int64_t index),
                                      void *arg);

/* Threads for several contexts, or for contexts that come and go: those of FOVEA_THREADS_POOL without a context. Pass
 * fovea_thread_pool_run and the pool as options.parallel_for and options.pool. The contexts' limits decide how many
 * threads a call uses; the pool's threads are bound to no node.
 *   threads  the most that a call runs on, its calling thread among them; at least 1
 *   spin_us  as pool_spin_us
 * FOVEA_ERROR_ARGUMENT, FOVEA_ERROR_OUT_OF_MEMORY: *pool is NULL. Thread-safe. */
typedef struct fovea_thread_pool fovea_thread_pool;
FOVEA_API fovea_status fovea_thread_pool_create(int threads, int spin_us, fovea_thread_pool **pool);

/* Joins the threads and frees the pool, which no context may use any more. pool may be NULL. */
FOVEA_API void fovea_thread_pool_destroy(fovea_thread_pool *pool);

/* A fovea_parallel_for_fn on the pool's threads. While one call has them, others run on their calling threads. */
FOVEA_API void fovea_thread_pool_run(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

#ifdef __cplusplus
}
#endif
#endif
