/* Numbers, weights and checks for the tests of linear maps and layers over ranks. */
#ifndef FOVEA_MPI_LAYER_CASE_H
#define FOVEA_MPI_LAYER_CASE_H

#include "case.h"
#include "fovea_mpi_layer.h"
#include "groups.h"

extern fovea_context *ctx; /* of this rank: tiers and threads differ */
extern fovea_mpi_group *group;

/* The same status on all ranks, with a sentence of the guilty one; guilty < 0: of none. */
void all_failed(fovea_status status, fovea_status want, int guilty, const char *what);

/* Freed at the end of a case by free_all(). */
void *keep(size_t bytes);
void free_all(void);

/* count numbers of a type, near 1 in size. */
void *numbers(rng *r, fovea_dtype dtype, int64_t count);
fovea_tensor filled(rng *r, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens, int64_t channels);
/* The same shape in memory of its own, filled with a pattern. */
fovea_tensor empty_like(const fovea_tensor *t);
/* Elements, and the pattern between them. */
bool same_memory(const fovea_tensor *a, const fovea_tensor *b);

/* Weights [in, out] as a layer or map may have them. */
typedef enum weight_kind {
    F32_IN_OUT,
    F32_OUT_IN,
    BF16,
    Q8_0,
    Q4_K,
    INT8,
    INT8_GROUPS,
    U4_GROUPS,
    GPTQ,
    AWQ,
    WEIGHT_KINDS
} weight_kind;
fovea_matrix weight(rng *r, weight_kind kind, int64_t in, int64_t out);
const char *weight_name(weight_kind kind);

void test_linear(rng *r, int every);
void test_layer(rng *r, int every);

#endif
