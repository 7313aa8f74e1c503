/* Weights of linear maps that are timed (linear.c): of any type, always the same. */
#ifndef BENCH_LINEAR_WEIGHTS_H
#define BENCH_LINEAR_WEIGHTS_H

#include "bench.h"

#include <stdbool.h>

typedef struct linear_weights {
    void *data;
    void *scales; /* of integers */
    fovea_quantization quantization;
    fovea_matrix matrix; /* [in, out] in PyTorch's order, of these */
} linear_weights;

/* Channels that share a scale unless a case says otherwise: 0, all of them. */
int64_t linear_weights_group(fovea_dtype dtype);

/* False: no memory. Floats lie evenly in [-1, 1), integers are any bits, scales are such that products are of ordinary
 * size. matrix points into the struct, which must not move. */
bool linear_weights_make(linear_weights *w, fovea_dtype dtype, int64_t in, int64_t out, int64_t group);
void linear_weights_free(linear_weights *w);

#endif
