/* Fovea over MPI: attention whose keys and values are spread over ranks (context parallelism), with the bits of one
 * fovea_attention_execute(). A component of its own: CMake Fovea::mpi, pkg-config fovea-mpi. Needs MPI 3.
 *
 *     fovea_mpi_attention_desc desc;
 *     fovea_mpi_attention_desc_init(&desc);
 *     desc.attention = &whole;                           the whole problem, as for one rank
 *     fovea_mpi_attention_plan_create(comm, ctx, &desc, &plan);
 *     fovea_mpi_attention_keys(plan, rank);              how many keys this rank holds; _key_stripe() says which
 *     args.q = ...; args.k = ...; args.v = ...; args.out = ...;    this rank's parts
 *     fovea_mpi_attention_execute(plan, &args, workspace, size);
 *     fovea_mpi_attention_plan_destroy(plan);
 *
 * Places. The key axis is cut into stripes of whole segments of 256 keys. Stripes are dealt back and forth: 0, 1, ...,
 * R - 1, R - 1, ..., 1, 0, 0, 1, ... over R ranks. So each rank has early and late keys, and causal work is even.
 * Stripes of ceil(segments / R) segments are the contiguous split. A rank's tensors hold its stripes one after another,
 * in ascending order, without gaps.
 *
 * Collective functions must be called by all ranks of the communicator, in the same order: _create, _execute and
 * _destroy. All others are local.
 *
 * Errors. A bad argument on one rank is told on all: each collective call returns the same status on every rank, and
 * fovea_mpi_error_detail() names the rank that failed. No rank waits for one that has refused. Only what leads to the
 * other ranks must be there: a rank that gives MPI_COMM_NULL, or NULL for the object that it calls (plan, cache, group,
 * linear, mha), gets FOVEA_ERROR_NULL alone, and others wait for it. Failures of MPI itself (a rank that dies, a
 * network that breaks) end the job. No more is promised then.
 *
 * Threads. Only the calling thread calls MPI. If it is the one that initialised MPI, MPI_THREAD_FUNNELED is enough, and
 * MPI_THREAD_SINGLE (MPI_Init()) where contexts have one thread. The level is not checked. Two threads in calls of one
 * plan, cache or group at once mix up its messages: undefined. So do two that create objects over one communicator at
 * once. If others take turns, MPI_THREAD_SERIALIZED. To use different plans, caches or groups at once,
 * MPI_THREAD_MULTIPLE; then each thread creates its own over its own communicator, or one creates all. Attention itself
 * runs on the context's threads. */
#ifndef FOVEA_MPI_H
#define FOVEA_MPI_H

#include "fovea/fovea.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sentence about this thread's last failure in a function of this header, or "" before the first one. Owned by the
 * library, and valid until this thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_mpi_error_detail(void);

/* --------------------------------------------------------------------------------------------------------- costs -- */

/* Speeds from which stripes, blocks and the method are chosen. They change speed, but no bit of a result. Those of rank
 * 0 count for all ranks. The defaults are those of ranks on one host. A field of 0 takes its default. */
typedef struct fovea_mpi_costs {
    size_t struct_size;
    double flops;     /* of attention on one rank, a second: 2 a multiply-add; default 1.2e11 a thread */
    double key_bytes; /* keys and values that one rank reads and packs, bytes a second; default 1.05e10 a thread */
    double call;      /* seconds that a call of attention takes besides; default 5e-6 */
    double latency;   /* seconds that a message takes besides; default 5e-6 */
    double bandwidth; /* of a message, bytes a second; default 4e9 */
    double copy; /* bytes of messages that a rank's CPU copies a second, at either end; default 4e9, as on one host. A
                         large number if network adapters do it */
} fovea_mpi_costs;

/* Sets struct_size, and zeros: the defaults. */
#define fovea_mpi_costs_init(costs) fovea_mpi_costs_init_size((costs), sizeof(fovea_mpi_costs))
FOVEA_API void fovea_mpi_costs_init_size(fovea_mpi_costs *costs, size_t size);

/* --------------------------------------------------------------------------------------------------------- plans -- */

/* Where queries and results are. */
typedef enum fovea_mpi_queries {
    /* Spread like keys: stripes of query_stripe queries, dealt back and forth. Each rank gets the results of its own
     * queries. For prompts and training. */
    FOVEA_MPI_QUERIES_DEALT = 0,
    /* Each rank has all queries, and gets all results. For decoding. */
    FOVEA_MPI_QUERIES_REPLICATED = 1
} fovea_mpi_queries;

/* How the parts of a result meet. The bits are the same.
 *   PASS    A block of queries travels with its state (state.h) from rank to rank, in the order of keys. Several blocks
 *           are under way at a time. A rank computes one while it receives and sends others. For many queries.
 *   GATHER  Each rank computes each of its segments by itself. One rank merges a block's partial results, in the order
 *   of
 *           keys. Traffic is one state for each segment, but no rank waits for another's work. For few queries. */
typedef enum fovea_mpi_method {
    FOVEA_MPI_METHOD_MODEL = 0, /* whichever the cost model says is faster */
    FOVEA_MPI_METHOD_PASS = 1,
    FOVEA_MPI_METHOD_GATHER = 2 /* not with FOVEA_RELATIVE_WINDOW_2D */
} fovea_mpi_method;

#define FOVEA_MPI_OFFSET_FULL INT64_MIN

typedef struct fovea_mpi_attention_desc {
    size_t struct_size;
    const fovea_attention_desc *attention; /* the whole problem; q_len and kv_len are those of all ranks */
    fovea_mpi_queries queries;             /* default FOVEA_MPI_QUERIES_DEALT */
    fovea_mpi_method method;               /* default FOVEA_MPI_METHOD_MODEL */
    int64_t
        stripe_segments; /* segments of 256 keys in a stripe, >= 1; default 0: the cost model chooses. Plans that share
                                keys must have the same */
    int64_t
        query_stripe; /* DEALT: queries in a stripe, >= 1; default 0: 256 * stripe_segments if q_len is kv_len (token
                                i has its query, key and value on one rank), else ceil(q_len / ranks) */
    int64_t block_queries;  /* queries in a block that travels, >= 1; default 0: the cost model chooses */
    int64_t block_kv_heads; /* key heads of a block, >= 1; default 0: the cost model chooses */
    int64_t in_flight;      /* PASS: blocks under way at a time on all ranks, >= 1; default 0: 2 ranks + 2 */
    /* PASS: the least and the greatest offset of queries (q_offsets; with BOTTOM_RIGHT kv_lens[b] - q_lens[b]) that
     * executions will have. They decide which ranks a block visits, if causality or windows limit the keys. Default
     * FOVEA_MPI_OFFSET_FULL: kv_len - q_len with BOTTOM_RIGHT and OFFSET, else 0 */
    int64_t min_offset, max_offset;
    const fovea_mpi_costs *costs; /* NULL: the defaults */
} fovea_mpi_attention_desc;

/* Sets struct_size and the defaults. */
#define fovea_mpi_attention_desc_init(desc) fovea_mpi_attention_desc_init_size((desc), sizeof(fovea_mpi_attention_desc))
FOVEA_API void fovea_mpi_attention_desc_init_size(fovea_mpi_attention_desc *desc, size_t size);

/* What goes where. Belongs to a communicator of its own. */
typedef struct fovea_mpi_attention_plan fovea_mpi_attention_plan;

/* Agrees on desc with all ranks of comm and fixes stripes, blocks, and the order of work and of messages. Collective.
 * comm is duplicated, so messages of the plan meet no others. ctx must outlive the plan; what desc points to need not.
 * The ranks may have different tiers and numbers of threads.
 *
 * The routes of blocks follow from desc alone, so messages never depend on what a call is given. Lengths only decide
 * which stops have work.
 *
 * Errors: those of fovea_attention_plan_create() for desc->attention, and
 *   FOVEA_ERROR_NULL         ctx, desc or plan is NULL
 *   FOVEA_ERROR_ARGUMENT     a field of desc is out of range, or differs between ranks, or min_offset is above
 *                            max_offset; FOVEA_ARITHMETIC_FASTEST takes different arithmetics on the ranks' CPUs, so
 *                            that one must be named; MPI is not initialised
 *   FOVEA_ERROR_UNSUPPORTED  masks, has_bias, packed sequences, pages; GATHER with FOVEA_RELATIVE_WINDOW_2D; a block's
 *                            message of more than 2^37 bytes
 *   FOVEA_ERROR_OUT_OF_MEMORY
 * After an error *plan is NULL, on all ranks. */
FOVEA_API fovea_status fovea_mpi_attention_plan_create(MPI_Comm comm, const fovea_context *ctx,
                                                       const fovea_mpi_attention_desc *desc,
                                                       fovea_mpi_attention_plan **plan);

/* Frees a plan and its communicator. NULL is allowed. Collective. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_attention_plan_destroy(fovea_mpi_attention_plan *plan);

/* Keys that a rank holds: tokens of its k and v. 0 if rank is not in the communicator. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_keys(const fovea_mpi_attention_plan *plan, int rank);

/* The index-th run of keys of a rank: positions [*first, *first + count). Returns count, 0 if there are fewer runs.
 * Runs are as long as they can be. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_key_stripe(const fovea_mpi_attention_plan *plan, int rank, int64_t index,
                                                 int64_t *first);

/* The same for queries: tokens of q and out. REPLICATED: each rank has one run of all. Thread-safe. */
FOVEA_API int64_t fovea_mpi_attention_queries(const fovea_mpi_attention_plan *plan, int rank);
FOVEA_API int64_t fovea_mpi_attention_query_stripe(const fovea_mpi_attention_plan *plan, int rank, int64_t index,
                                                   int64_t *first);

/* Bytes of workspace that fovea_mpi_attention_execute() needs on this rank. It differs from rank to rank. PASS: the
 * blocks that are at this rank at a time, with their states. GATHER: the states of this rank's segments, and for the
 * blocks that it merges those of all segments. Either adds attention's own workspace. Thread-safe. */
FOVEA_API size_t fovea_mpi_attention_plan_workspace_size(const fovea_mpi_attention_plan *plan);

/* Writes a few lines about the plan into text[size]: method, stripes, blocks, stops, predicted time. Like snprintf, it
 * terminates the text if size > 0, and returns the length of the whole text without the terminator. Thread-safe. */
FOVEA_API size_t fovea_mpi_attention_plan_describe(const fovea_mpi_attention_plan *plan, char *text, size_t size);

/* Predicted seconds of one execution, by the cost model. Thread-safe. */
FOVEA_API double fovea_mpi_attention_plan_seconds(const fovea_mpi_attention_plan *plan);

/* Attention. Collective.
 *   - args.q, out, lse: [batch, q_heads, this rank's queries, channels]. args.k, v: [batch, kv_heads, this rank's keys,
 *     channels]. Ranks may have different strides. A rank without queries or keys passes tensors of 0 tokens.
 *   - q_lens, kv_lens, q_offsets: [batch], of the whole problem, the same on all ranks (compared at each call). Columns
 *     past kv_lens[b] are not read, on whichever rank they are.
 *   - relative and sinks: those of the whole problem, equal on all ranks (not compared).
 *   - Everything else must be absent.
 *   - The bits of out and lse are those of one fovea_attention_execute() with all keys, on any tier.
 *   - The ranks agree on arguments and memory in one small reduction before the first message. The call returns when
 *     this rank's work and messages are complete. Arguments may then be reused.
 *   - workspace: at least fovea_mpi_attention_plan_workspace_size() bytes, aligned like memory from malloc. With it
 *     nothing is allocated here (MPI may allocate). With NULL and size 0, memory is allocated for this call;
 *     FOVEA_ERROR_OUT_OF_MEMORY on every rank if one has none.
 *   - Errors: those of fovea_attention_execute() for this rank's tensors; FOVEA_ERROR_ARGUMENT if lengths or offsets
 *     differ between ranks, FOVEA_ERROR_UNSUPPORTED if an offset is outside [min_offset, max_offset] of a plan of PASS
 *     that
 *     relies on it. After an error out and lse of all ranks are undefined, and the plan can be executed again. */
FOVEA_API fovea_status fovea_mpi_attention_execute(fovea_mpi_attention_plan *plan, const fovea_attention_args *args,
                                                   void *workspace, size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif
