/* Numbers of bfloat16 or float16, and the same in float32: for tests that compare what is computed of either. */
#ifndef FOVEA_TESTS_HALF_PAIR_H
#define FOVEA_TESTS_HALF_PAIR_H

#include "fovea/fovea.h"
#include "test.h"

enum { HALF_PAIR_TYPES = 3 };
extern const fovea_dtype half_pair_types[HALF_PAIR_TYPES];

/* n numbers in a type, and the same in float32. */
typedef struct half_pair {
    fovea_dtype dtype;
    void *half;
    float *wide;
} half_pair;

/* Room for n numbers of a type, which may be float32. */
half_pair half_pair_alloc(int64_t n, fovea_dtype dtype);

/* n normal numbers times size. */
half_pair half_pair_make(int64_t n, fovea_dtype dtype, float size, rng *r);

/* Rounds what wide holds, and takes back what that gives. */
void half_pair_round(const half_pair *x, int64_t n);

/* Puts a number of double precision into both, rounded once. */
void half_pair_store(const half_pair *x, int64_t at, double value);

/* A copy in a type of a tensor of float32, with its strides and gaps; data belongs to a half_pair. */
fovea_tensor half_pair_tensor(const fovea_tensor *t, fovea_dtype dtype);

/* Frees all half_pairs that were made since the last call. */
void half_pairs_free(void);

#endif
