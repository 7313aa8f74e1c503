/* Problems for the tests over ranks. Every rank makes the same problem, computes it alone, and then its part. */
#ifndef FOVEA_MPI_CASE_H
#define FOVEA_MPI_CASE_H

#include "fovea_mpi.h"

#include <stdbool.h>
#include <stdint.h>

/* splitmix64 */
typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_next(rng *r);
int64_t rng_below(rng *r, int64_t n);
int64_t rng_between(rng *r, int64_t low, int64_t high); /* both included */

typedef struct problem {
    fovea_attention_desc desc;
    fovea_mpi_attention_desc over; /* attention set by run() */
    bool lens, offsets, lse;
    fovea_tensor q, k, v, out, relative, lse_out; /* whole, contiguous [batch, heads, tokens, channels] */
    int64_t q_lens[4], kv_lens[4], q_offsets[4];
    float sinks[16];
    int threads;
} problem;

/* A description without memory: plain, or all chosen at random. */
problem problem_plain(void);
problem problem_random(rng *r);
/* Fills memory. Keys past kv_lens are NaN. */
void problem_fill(problem *p, rng *r);
void problem_free(problem *p);
fovea_attention_args problem_args(const problem *p);
const char *problem_text(const problem *p);

/* This rank's part of a tensor of keys or queries, in memory of its own with gaps; and whether it has the bits of the
 * whole. */
typedef int64_t stripe_function(const fovea_mpi_attention_plan *plan, int rank, int64_t index, int64_t *first);
fovea_tensor part_of(const fovea_tensor *whole, const fovea_mpi_attention_plan *plan, int rank, stripe_function *stripe,
                     bool copy);
bool part_same(const fovea_tensor *part, const fovea_tensor *whole, const fovea_mpi_attention_plan *plan, int rank,
               stripe_function *stripe);

#endif
