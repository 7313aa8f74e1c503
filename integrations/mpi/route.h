/* Blocks of queries, and the route of each over the ranks that have its keys. */
#ifndef FV_MPI_ROUTE_H
#define FV_MPI_ROUTE_H

#include "fovea_mpi.h"
#include "layout.h"

static inline int64_t fv_mpi_heads_per_key(const fovea_attention_desc *d) {
    return d->q_heads / fv_mpi_max(1, d->kv_heads);
}

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

/* Chosen by the caller or by the cost model. */
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
/* Bytes of a state sent to a rank, with q unless the rank has it: for costs. */
int64_t fv_mpi_hop_bytes(const fv_mpi_problem *problem, const fv_mpi_block *block, int to);

#endif
