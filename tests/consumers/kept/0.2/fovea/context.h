/* Fovea: contexts: tier, threads, tuning file, environment. Part of fovea.h. */
#ifndef FOVEA_CONTEXT_H
#define FOVEA_CONTEXT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tiers: the instruction-set levels for which kernels exist. Those of an architecture are in the order of preference,
 * and each CPU has those of lower number too. */
typedef enum fovea_isa {
    FOVEA_ISA_BEST = 0,   /* as an option: the best that CPU, operating system and FOVEA_ISA allow */
    FOVEA_ISA_SCALAR = 1, /* portable C */
    FOVEA_ISA_AVX2 = 2,   /* AVX2 and FMA3 */
    FOVEA_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL */
    FOVEA_ISA_NEON = 4    /* NEON (Advanced SIMD): every 64-bit Arm CPU */
} fovea_isa;

/* "scalar", "avx2", ...; "unknown" for any other value. These are the words that FOVEA_ISA takes. Static string.
 * Thread-safe. */
FOVEA_API const char *fovea_isa_name(fovea_isa isa);

/* A caller's own thread pool. Must call task(arg, i) exactly once for each i in [0, count), on any threads, in any
 * order, at once or one after another, and return when all have returned. count is at most the context's thread count.
 */
typedef void (*fovea_parallel_for)(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

typedef struct fovea_context_options {
    size_t struct_size;
    fovea_isa isa;                   /* the highest tier to use; default FOVEA_ISA_BEST */
    int threads;                     /* at most so many; default 0: no limit of the options */
    fovea_parallel_for parallel_for; /* default NULL: OpenMP */
    void *pool;                      /* handed to parallel_for */
    const char *tuning_file;         /* default NULL: looked for, see fovea_context_create(); "": none */
} fovea_context_options;

/* Sets struct_size and the defaults. NULL is ignored. Thread-safe on different options. */
#define fovea_context_options_init(options) fovea_context_options_init_size((options), sizeof(fovea_context_options))
FOVEA_API void fovea_context_options_init_size(fovea_context_options *options, size_t size);

/* Tier choice and thread count, immutable after creation: any number of threads may use one at once, and contexts with
 * different tiers may live in one process. Must outlive its plans. */
typedef struct fovea_context fovea_context;

/* Makes a context. options may be NULL (all defaults). The environment is read here and nowhere else:
 * FOVEA_ISA=scalar|avx2|avx512|neon caps the tier (an unknown word: FOVEA_ERROR_ENVIRONMENT; a tier above what the CPU
 * has is a cap like any other and chooses the best below it, so one of another architecture leaves the portable C);
 * FOVEA_DEBUG=1 writes to stderr what was chosen and why, for the context and for each plan and linear map;
 * FOVEA_LOG_SHAPES=file adds a line to that file for each shape that is executed, for fovea-tune to read (at most 1
 * MiB; a file that cannot be written is told by FOVEA_DEBUG=1 alone). The tuning file is options->tuning_file, or
 * FOVEA_TUNING_FILE, or else the first of $XDG_CACHE_HOME/fovea/tuning ($HOME/.cache where that is unset) and
 * /etc/fovea/tuning that is there; an empty name: none. It can change speed and no bit of any result. One that is
 * damaged, foreign or not to be trusted is not an error here: the defaults are used, and fovea_context_info() says why.
 * On error *ctx is set to NULL. Thread-safe.
 *
 * Its number of threads is the smallest of options->threads, what OpenMP would use for a region of the calling thread
 * (OMP_NUM_THREADS, omp_set_num_threads(), OMP_THREAD_LIMIT), the affinity mask and the cgroup quota; with a
 * parallel_for it is options->threads, or that of mask and quota. If omp_set_num_threads() asks for fewer afterwards,
 * calls use fewer; they never use more. Without OpenMP in the build and without a parallel_for it is 1. */
FOVEA_API fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx);

/* Frees it; NULL is allowed. No plan made from it may be used afterwards. */
FOVEA_API void fovea_context_destroy(fovea_context *ctx);

typedef struct fovea_info {
    size_t struct_size;
    fovea_isa isa;     /* the tier in use */
    int threads;       /* most threads that an execution uses, see fovea_context_create() */
    int64_t l1d_bytes; /* data caches as plans see them: after sanity checks, with fallbacks */
    int64_t l2_bytes;
    char cpu[64];               /* the CPU's own name */
    char reason[512];           /* why this tier, and why not those above it; why this many threads */
    fovea_status tuning_status; /* of the tuning file: FOVEA_OK if it is used, or if there is none */
    int tuning_rows;            /* of it that plans and linear maps of this context may use */
    char tuning[512];           /* which file, or what is wrong with it */
    char features[160];         /* beyond the tier that kernels may use, as "f16c, avx512_bf16"; "" of none */
} fovea_info;

/* Sets struct_size, and the rest to 0. NULL is ignored. Thread-safe on different structs. */
#define fovea_info_init(info) fovea_info_init_size((info), sizeof(fovea_info))
FOVEA_API void fovea_info_init_size(fovea_info *info, size_t size);

/* Fills *info. Thread-safe. */
FOVEA_API fovea_status fovea_context_info(const fovea_context *ctx, fovea_info *info);

/* Runs task(arg, i) once for each i of [0, count) on the threads of the context, in any order, and returns when all
 * have returned: for what a program computes between calls of this library, or for whole chains of calls, each of which
 * then runs on the thread of its task (those of a task that is the only one, on all threads). Rounding mode and
 * flush-to-zero are the caller's. After an error no task has run. Thread-safe. */
FOVEA_API fovea_status fovea_parallel(const fovea_context *ctx, int64_t count, void (*task)(void *arg, int64_t index),
                                      void *arg);

#ifdef __cplusplus
}
#endif
#endif
