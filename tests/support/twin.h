/* Numbers of bfloat16 or float16, and the same in float32: for tests that compare what is computed of either. */
#ifndef FOVEA_TESTS_TWIN_H
#define FOVEA_TESTS_TWIN_H

#include "fovea/fovea.h"
#include "test.h"

enum { TWIN_TYPES = 3 };
extern const fovea_dtype twin_types[TWIN_TYPES];

/* n numbers in a type, and the same in float32. */
typedef struct twin {
    fovea_dtype dtype;
    void *half;
    float *wide;
} twin;

/* Room for n numbers of a type, which may be float32. */
twin twin_alloc(int64_t n, fovea_dtype dtype);

/* n normal numbers times size. */
twin twin_make(int64_t n, fovea_dtype dtype, float size, rng *r);

/* Rounds what wide holds, and takes back what that gives. */
void twin_round(const twin *x, int64_t n);

/* Puts a number of double precision into both, rounded once. */
void twin_store(const twin *x, int64_t at, double value);

/* A copy in a type of a tensor of float32, with its strides and gaps; data belongs to a twin. */
fovea_tensor twin_tensor(const fovea_tensor *t, fovea_dtype dtype);

/* Frees all twins that were made since the last call. */
void twins_free(void);

#endif
