/* Fovea over MPI: attention whose keys and values are spread over ranks (context parallelism), with the bits of one
 * fovea_attention_execute(). A component of its own: CMake Fovea::mpi, pkg-config fovea-mpi. Needs MPI 3.
 *
 *     fovea_mpi_attention_desc desc;
 *     fovea_mpi_attention_desc_init(&desc);
 *     desc.attention = &whole;                           the whole problem, as for one rank
 *     fovea_mpi_attention_plan_create(comm, ctx, &desc, &plan);
 *     fovea_mpi_attention_keys(plan, rank);              number of keys of this rank; _key_stripe() says which
 *     args.q = ...; args.k = ...; args.v = ...; args.out = ...;    this rank's parts
 *     fovea_mpi_attention_execute(plan, &args, workspace, size);
 *     fovea_mpi_attention_plan_destroy(plan);
 *
 * Distribution. The key axis is cut into stripes of whole segments of 256 keys. R ranks get stripes back and forth: 0,
 * 1, ..., R - 1, R - 1, ..., 1, 0, 0, 1, ... So each rank has early and late keys, and causal work is even. Stripes of
 * ceil(segments / R) segments are the contiguous split. A rank's tensors hold its stripes in ascending order, without
 * gaps.
 *
 * Collective functions must be called by all ranks of the communicator, in the same order: _create, _execute and
 * _destroy. All others are local.
 *
 * Errors. If any rank passes an invalid argument, every rank returns the same error, and fovea_mpi_error_detail() names
 * the rank. No rank hangs. There are two exceptions. A rank that passes MPI_COMM_NULL, or NULL for the plan, cache or
 * group, returns FOVEA_ERROR_NULL at once, while the others wait for it. Failures of MPI itself (a rank dies, the
 * network breaks) end the job.
 *
 * Threads. Only the calling thread calls MPI; attention runs on the context's threads. The library does not check the
 * thread level, which must be
 *   MPI_THREAD_SINGLE      if contexts have one thread
 *   MPI_THREAD_FUNNELED    if the thread that initialized MPI makes all calls
 *   MPI_THREAD_SERIALIZED  if several threads take turns
 *   MPI_THREAD_MULTIPLE    if threads use different plans, caches or groups at once; each thread then creates its own
 *                          over its own communicator, or one thread creates all
 * It is undefined if two threads use one plan, cache or group at once, or create objects over one communicator at once,
 * since their messages mix. */
#ifndef FOVEA_MPI_H
#define FOVEA_MPI_H

#include "fovea/fovea.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describes this thread's last failure in a function of this header; "" before the first one. Owned by the library,
 * valid until this thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_mpi_error_detail(void);

/* The structs of this header that may grow, and what initializes them: as fovea_struct and fovea_struct_init(). */
typedef enum fovea_mpi_struct { FOVEA_MPI_STRUCT_ATTENTION_DESC = 1, FOVEA_MPI_STRUCT_COSTS = 2 } fovea_mpi_struct;
FOVEA_API fovea_status fovea_mpi_struct_init(fovea_mpi_struct kind, void *object, size_t size);

/* --------------------------------------------------------------------------------------------------------- costs -- */

/* Speeds from which the cost model chooses stripes, blocks and the method. They never change a bit of a result. All
 * ranks use those of rank 0. A field of 0 takes its default, which suits ranks on one host. */
typedef struct fovea_mpi_costs {
    size_t struct_size;
    double flops;     /* attention on one rank, per second, 2 per multiply-add; default 1.2e11 per thread */
    double key_bytes; /* bytes per second of keys and values that a rank reads and packs; default 1.05e10 per thread */
    double call;      /* fixed cost of a call of attention, seconds; default 5e-6 */
    double latency;   /* of a message, seconds; default 5e-6 */
    double bandwidth; /* of a message, bytes per second; default 4e9 */
    double copy;      /* bytes of messages that a CPU copies per second; default 4e9; large if network adapters do it */
} fovea_mpi_costs;
static inline void fovea_mpi_costs_init(fovea_mpi_costs *costs) {
    (void)fovea_mpi_struct_init(FOVEA_MPI_STRUCT_COSTS, costs, sizeof *costs);
}

/* --------------------------------------------------------------------------------------------------------- plans -- */

/* Where queries and results are. */
typedef enum fovea_mpi_queries {
    /* Distributed like keys, in stripes of query_stripe queries. Each rank gets the results of its own queries. For
     * prompts and training. */
    FOVEA_MPI_QUERIES_DEALT = 0,
    /* Each rank has all queries, and gets all results. For decoding. */
    FOVEA_MPI_QUERIES_REPLICATED = 1
} fovea_mpi_queries;

/* How partial results of different ranks are combined. Both methods give the same bits.
 *   PASS    A block of queries travels with its state (state.h) from rank to rank, in the order of keys. Several blocks
 *           travel at a time: a rank computes one while it receives and sends others. For many queries.
 *   GATHER  Each rank computes a state for each of its segments. One rank merges the states of a block, in the order of
 *           keys. It sends one state per segment, but no rank waits for another's work. For few queries. */
typedef enum fovea_mpi_method {
    FOVEA_MPI_METHOD_MODEL = 0, /* the faster one by the cost model */
    FOVEA_MPI_METHOD_PASS = 1,
    FOVEA_MPI_METHOD_GATHER = 2 /* not with FOVEA_RELATIVE_WINDOW_2D */
} fovea_mpi_method;

#define FOVEA_MPI_OFFSET_FULL INT64_MIN

typedef struct fovea_mpi_attention_desc {
    size_t struct_size;
    const fovea_attention_desc *attention; /* the whole problem; q_len and kv_len are those of all ranks */
    fovea_mpi_queries queries;             /* default FOVEA_MPI_QUERIES_DEALT */
    fovea_mpi_method method;               /* default FOVEA_MPI_METHOD_MODEL */
    /* Segments of 256 keys in a stripe, >= 1; default 0: the cost model chooses. Plans that share keys must have the
     * same number. */
    int64_t stripe_segments;
    /* DEALT: queries in a stripe, >= 1. Default 0: 256 * stripe_segments if q_len is kv_len, which puts the query, key
     * and value of a token on one rank; else ceil(q_len / ranks). */
    int64_t query_stripe;
    int64_t block_queries;  /* queries in a block that travels, >= 1; default 0: the cost model chooses */
    int64_t block_kv_heads; /* key heads of a block, >= 1; default 0: the cost model chooses */
    int64_t in_flight;      /* PASS: blocks that travel at a time, over all ranks, >= 1; default 0: 2 * ranks + 2 */
    /* PASS: the smallest and largest offset of queries (q_offsets; with BOTTOM_RIGHT kv_lens[b] - q_lens[b]) of any
     * execution. With causality or windows they decide which ranks a block visits. Default FOVEA_MPI_OFFSET_FULL:
     * kv_len - q_len with BOTTOM_RIGHT and OFFSET, else 0. */
    int64_t min_offset, max_offset;
    const fovea_mpi_costs *costs; /* NULL: the defaults */
} fovea_mpi_attention_desc;
static inline void fovea_mpi_attention_desc_init(fovea_mpi_attention_desc *desc) {
    (void)fovea_mpi_struct_init(FOVEA_MPI_STRUCT_ATTENTION_DESC, desc, sizeof *desc);
}

/* The distribution of a problem and the order of work. Has a communicator of its own. */
typedef struct fovea_mpi_attention_plan fovea_mpi_attention_plan;

/* Compares desc on all ranks of comm, and fixes stripes, blocks, and the order of work and of messages. Allocates all
 * memory that executions need, so that none of them can lack it. Collective.
 * comm is duplicated, so messages of the plan meet no others. ctx must outlive the plan; what desc points to need not.
 * The ranks may have different tiers and numbers of threads.
 *
 * Messages depend on desc alone, not on the arguments of a call. Lengths only decide how much a rank computes.
 *
 * Errors: those of fovea_attention_plan_create() for desc->attention, and
 *   FOVEA_ERROR_NULL         ctx, desc or plan is NULL
 *   FOVEA_ERROR_ARGUMENT     a field of desc is out of range, or differs between ranks, or min_offset is above
 *                            max_offset; FOVEA_ARITHMETIC_FASTEST selects different arithmetics on the ranks' CPUs
 *                            (name one instead); MPI is not initialized
 *   FOVEA_ERROR_UNSUPPORTED  masks, has_bias, packed sequences, pages; GATHER with FOVEA_RELATIVE_WINDOW_2D; a block's
 *                            message of more than 2^37 bytes
 *   FOVEA_ERROR_OUT_OF_MEMORY  on any rank
 * After an error *plan is NULL, on all ranks. */
FOVEA_API fovea_status fovea_mpi_attention_plan_create(MPI_Comm comm, const fovea_context *ctx,
                                                       const fovea_mpi_attention_desc *desc,
                                                       fovea_mpi_attention_plan **plan);

/* Frees a plan and its communicator. NULL is allowed. Collective. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_attention_plan_destroy(fovea_mpi_attention_plan *plan);

/* Number of keys of a rank: tokens of its k and v. 0 if rank is not in the communicator. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_keys(const fovea_mpi_attention_plan *plan, int rank);

/* The index-th contiguous range of a rank's keys: positions [*first, *first + count). Returns count; 0 if there are
 * fewer ranges. Adjacent stripes are one range. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_key_stripe(const fovea_mpi_attention_plan *plan, int rank, int64_t index,
                                                 int64_t *first);

/* The same for queries: tokens of q and out. REPLICATED: each rank has one range with all. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_queries(const fovea_mpi_attention_plan *plan, int rank);
FOVEA_API int64_t fovea_mpi_attention_query_stripe(const fovea_mpi_attention_plan *plan, int rank, int64_t index,
                                                   int64_t *first);

/* Bytes of workspace that fovea_mpi_attention_execute() needs on this rank; other ranks may need more or less. PASS:
 * the blocks that are at this rank at a time, with their states. GATHER: the states of this rank's segments, and of all
 * segments for the blocks that it merges. Both include attention's own workspace. Thread-safe. */
FOVEA_API size_t fovea_mpi_attention_plan_workspace_size(const fovea_mpi_attention_plan *plan);

/* Writes a few lines about the plan into text[size]: method, stripes, blocks, stops, predicted time. Like snprintf, it
 * terminates the text if size > 0, and returns the length of the whole text without the terminator. Thread-safe. */
FOVEA_API size_t fovea_mpi_attention_plan_describe(const fovea_mpi_attention_plan *plan, char *text, size_t size);

/* Predicted seconds of one execution, by the cost model. Thread-safe. */
FOVEA_API double fovea_mpi_attention_plan_seconds(const fovea_mpi_attention_plan *plan);

/* Attention. Collective.
 *   - args.q, out, lse: [batch, q_heads, this rank's queries, channels]. args.k, v: [batch, kv_heads, this rank's keys,
 *     channels]. Ranks may have different strides. A rank without queries or keys passes tensors of 0 tokens.
 *   - q_lens, kv_lens, q_offsets: [batch], of the whole problem, the same on all ranks (compared at each call). Keys at
 *     positions from kv_lens[b] on are not read on any rank.
 *   - relative and sinks: of the whole problem, the same on all ranks (not compared).
 *   - All other arguments must be absent.
 *   - The bits of out and lse are those of one fovea_attention_execute() with all keys, on any tier.
 *   - The ranks agree on arguments in one small reduction before the first message. The call returns when
 *     this rank's work and messages are complete. Arguments may then be reused.
 *   - workspace: at least fovea_mpi_attention_plan_workspace_size() bytes, aligned like memory from malloc; or NULL,
 *     for memory that the plan has had since it was created. Either way the library allocates nothing (MPI may).
 *   - Errors: those of fovea_attention_execute() for this rank's tensors; FOVEA_ERROR_ARGUMENT if lengths or offsets
 *     differ between ranks, FOVEA_ERROR_UNSUPPORTED if an offset is outside [min_offset, max_offset] of a plan of PASS
 *     that relies on it. After an error out and lse are undefined on all ranks, and the plan can be executed again. */
FOVEA_API fovea_status fovea_mpi_attention_execute(fovea_mpi_attention_plan *plan, const fovea_attention_args *args,
                                                   void *workspace, size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif
