/* What the files of libfovea_mpi share: places of keys and queries (layout.c), blocks and their routes (route.c), the
 * cost model and the order of work (schedule.c), each rank's steps (steps.c), agreement between ranks (agree.c), and the
 * plan (plan.c), which execute.c runs by pass.c or gather.c. */
#ifndef FV_MPI_PLAN_H
#define FV_MPI_PLAN_H

#include "fovea_mpi.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FV_MPI_SEGMENT = 256,
    FV_MPI_UNIT = 64
}; /* FV_MPI_UNIT: bytes; messages are multiples of it, memory is aligned to it */

/* Bytes of a message, or of a call's messages together: counts and places of MPI are int, of FV_MPI_UNIT bytes. */
#define FV_MPI_MESSAGES_MOST ((int64_t)INT32_MAX * FV_MPI_UNIT)

static inline int64_t fv_mpi_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fv_mpi_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fv_mpi_clamp(int64_t x, int64_t low, int64_t high) {
    return fv_mpi_max(low, fv_mpi_min(x, high));
}
static inline int64_t fv_mpi_ceil(int64_t n, int64_t by) { return n / by + (n % by != 0); }
static inline int64_t fv_mpi_units(int64_t bytes) { return fv_mpi_ceil(bytes, FV_MPI_UNIT) * FV_MPI_UNIT; }

/* ---------------------------------------------------------------------------------------------------------- agree.c --
 * */

/* Sets this thread's sentence. Returns status. */
__attribute__((format(printf, 2, 3))) fovea_status fv_mpi_fail(fovea_status status, const char *format, ...);

/* The same, with the sentence of the core's last failure. */
fovea_status fv_mpi_fail_core(fovea_status status);

fovea_status fv_mpi_check_comm(MPI_Comm comm);

/* One status of all ranks, and whether all have the same digest. begin, then work, then end, which all ranks do. end
 * returns the same status everywhere, with the sentence of the rank that failed. what: what the digest is of. */
typedef struct fv_mpi_vote {
    MPI_Comm comm;
    MPI_Request request;
    int64_t mine[3], all[3];
} fv_mpi_vote;
void fv_mpi_vote_begin(fv_mpi_vote *vote, MPI_Comm comm, fovea_status status, uint64_t digest);
fovea_status fv_mpi_vote_end(fv_mpi_vote *vote, const char *what);

/* The end of what, where a digest has the arithmetic that FASTEST takes. */
#define FV_MPI_FASTEST ", or what FOVEA_ARITHMETIC_FASTEST takes on their CPUs (name that arithmetic instead),"

uint64_t fv_mpi_digest(uint64_t digest, const void *data, size_t bytes);

/* --------------------------------------------------------------------------------------------------------- layout.c --
 * */

/* An axis of total positions in stripes of width, dealt back and forth to ranks. */
typedef struct fv_mpi_layout {
    int64_t total, width;
    int ranks;
} fv_mpi_layout;

int fv_mpi_owner(const fv_mpi_layout *layout, int64_t position);
int64_t fv_mpi_held(const fv_mpi_layout *layout, int rank);
/* Where its owner has it. */
int64_t fv_mpi_local(const fv_mpi_layout *layout, int64_t position);
/* The position that rank has at local. */
int64_t fv_mpi_global(const fv_mpi_layout *layout, int rank, int64_t local);
/* Positions from this one on that its owner holds without a gap. */
int64_t fv_mpi_run(const fv_mpi_layout *layout, int64_t position);
int64_t fv_mpi_stripe(const fv_mpi_layout *layout, int rank, int64_t index, int64_t *first);

/* ---------------------------------------------------------------------------------------------------------- route.c --
 * */

/* Queries [query, query + queries) of key heads [head, head + heads) of all sequences. */
typedef struct fv_mpi_block {
    int64_t query, queries, head, heads;
    int home;            /* has q, and gets the result */
    int64_t stop, stops; /* PASS: its stops */
    int64_t q_local;     /* where home has its first query */
} fv_mpi_block;

/* A visit of a block: keys [key, key + keys), which rank has without a gap. */
typedef struct fv_mpi_stop {
    int rank;
    int64_t key, keys;
    double seconds;
} fv_mpi_stop;

/* What is chosen, and what follows from it. */
typedef struct fv_mpi_choice {
    int64_t stripe_segments, query_stripe, block_queries, block_kv_heads, in_flight;
    fovea_mpi_method method;
} fv_mpi_choice;

typedef struct fv_mpi_problem {
    fovea_attention_desc desc; /* with types resolved */
    fovea_mpi_queries queries;
    fovea_mpi_costs costs;
    int64_t min_offset, max_offset;
    int ranks;
} fv_mpi_problem;

typedef struct fv_mpi_routes {
    fv_mpi_layout keys, tokens; /* tokens: of queries */
    fv_mpi_block *blocks;
    fv_mpi_stop *stops;
    int64_t block_count, stop_count;
} fv_mpi_routes;

int64_t fv_mpi_block_count(const fv_mpi_problem *problem, const fv_mpi_choice *choice);
/* False: out of memory. */
bool fv_mpi_routes_make(const fv_mpi_problem *problem, const fv_mpi_choice *choice, fv_mpi_routes *routes);
void fv_mpi_routes_free(fv_mpi_routes *routes);

/* [*low, *high): keys that queries [first, first + count) at an offset from min to max may see, within kv_len. */
void fv_mpi_sees(const fovea_attention_desc *desc, int64_t first, int64_t count, int64_t min, int64_t max, int64_t *low,
                 int64_t *high);

/* Seconds that these queries take with keys [key, key + keys). */
double fv_mpi_visit_seconds(const fv_mpi_problem *problem, const fv_mpi_block *block, int64_t key, int64_t keys);
/* Bytes of a block's parts in messages. */
int64_t fv_mpi_q_bytes(const fv_mpi_problem *problem, const fv_mpi_block *block);
int64_t fv_mpi_state_bytes(const fv_mpi_problem *problem, const fv_mpi_block *block); /* about: for costs */
int64_t fv_mpi_out_bytes(const fv_mpi_problem *problem, const fv_mpi_block *block);
/* Of a state that goes to a rank, with q unless the rank has it: for costs. */
int64_t fv_mpi_hop_bytes(const fv_mpi_problem *problem, const fv_mpi_block *block, int to);

/* ------------------------------------------------------------------------------------------------------- schedule.c --
 * */

/* Work in an order that is the same on all ranks: a block starts (stop -1: home sends q), or makes a stop. */
typedef struct fv_mpi_op {
    int64_t block, stop; /* stop: index among the block's */
} fv_mpi_op;

/* Simulates PASS. Returns predicted seconds, < 0: out of memory. ops: NULL, or room for block_count + stop_count;
 * those of *op_count are written, in order. */
double fv_mpi_schedule(const fv_mpi_problem *problem, const fv_mpi_routes *routes, int64_t in_flight, fv_mpi_op *ops,
                       int64_t *op_count);
/* Likewise for GATHER. */
double fv_mpi_gather_seconds(const fv_mpi_problem *problem, const fv_mpi_routes *routes);

/* Chooses what given leaves open (0), and says how long it takes. False: out of memory. */
bool fv_mpi_choose(const fv_mpi_problem *problem, const fv_mpi_choice *given, fv_mpi_choice *choice, double *seconds);

/* ---------------------------------------------------------------------------------------------------------- steps.c --
 * */

/* A rank's part of an op of the schedule. */
typedef enum fv_mpi_step_kind {
    FV_MPI_SEND_Q,     /* to the first stop */
    FV_MPI_EXPECT,     /* what comes for a stop here */
    FV_MPI_VISIT,      /* compute, and send on */
    FV_MPI_EXPECT_OUT, /* the result of a block that is at home here */
} fv_mpi_step_kind;
typedef struct fv_mpi_step {
    fv_mpi_step_kind kind;
    int64_t block, stop;
} fv_mpi_step;

typedef struct fv_mpi_steps {
    fv_mpi_step *at; /* to be freed, whatever was returned */
    int64_t count, slots;
} fv_mpi_steps;

/* FV_MPI_SPARE_SLOTS: for messages that are still leaving; FV_MPI_OUT_SLOTS: results under way. */
enum { FV_MPI_SPARE_SLOTS = 2, FV_MPI_OUT_SLOTS = 4 };

/* False: out of memory. */
bool fv_mpi_steps_make(const fv_mpi_problem *problem, const fv_mpi_routes *routes, int64_t in_flight, int rank,
                       fv_mpi_steps *steps);

/* ----------------------------------------------------------------------------------------------------------- plan.c --
 * */

/* A plan of the core for blocks of this shape. keys 0: finishes. */
typedef struct fv_mpi_shape {
    int64_t queries, heads, keys;
    fovea_attention_plan *plan;
} fv_mpi_shape;

struct fovea_mpi_attention_plan {
    MPI_Comm comm;
    MPI_Datatype unit; /* FV_MPI_UNIT bytes */
    int rank, ranks;
    const fovea_context *ctx;
    fovea_context *one; /* GATHER: of one thread, for segments side by side */
    int threads;
    fv_mpi_problem problem;
    fv_mpi_choice choice;
    fv_mpi_routes routes;
    double seconds;
    fovea_attention_plan *check; /* of this rank's tensors: checks arguments */
    fv_mpi_shape *shapes;
    int64_t shape_count;
    size_t attention_bytes; /* the most workspace of shapes */
    /* PASS */
    fv_mpi_steps steps;
    int64_t slot_bytes, out_bytes; /* headers included: of a block under way, of a result */
};

/* desc.c: the defaults in size bytes of a caller's struct; such a struct over the defaults in *to. known: sizeof. */
void fv_mpi_init_struct(void *to, const void *from, size_t known, size_t size);
fovea_status fv_mpi_read_struct(void *to, const void *from, size_t known, const char *name);

/* Checks given, and reads it into *read and the plan's problem; a digest of what ranks must have alike. */
fovea_status fv_mpi_read_desc(fovea_mpi_attention_plan *plan, const fovea_mpi_attention_desc *given,
                              fovea_mpi_attention_desc *read);
uint64_t fv_mpi_desc_digest(const fovea_attention_desc *desc, const fovea_mpi_attention_desc *over);

fovea_attention_plan *fv_mpi_plan_of(const fovea_mpi_attention_plan *plan, int64_t queries, int64_t heads,
                                     int64_t keys);
/* Bytes of the state of a block, as in memory and in messages. */
int64_t fv_mpi_state_of(const fovea_mpi_attention_plan *plan, const fv_mpi_block *block);

#endif
