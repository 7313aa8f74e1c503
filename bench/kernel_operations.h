/* Operations of the kernel list, as fovea-bench measures them. m, n and k are rows, columns and channels, as kernels.h
 * has them. */
#ifndef BENCH_KERNEL_OPERATIONS_H
#define BENCH_KERNEL_OPERATIONS_H

#include "operands.h"

typedef struct kernel_operation {
    void (*call)(const fv_kernel *kernel, operands *o);
    int64_t m, n, k;        /* typical sizes; m 0: some tiles' worth of rows; n 0: the columns of the tile */
    const char *sizes;      /* which of m, n, k it has */
    int64_t n_most, n_step; /* what n may be */
    double flops, elements; /* for each of m * n * k, */
    double bytes;           /* read and written; a product's are those of its operands */
} kernel_operation;

/* That of a row; call is NULL where none is known. */
const kernel_operation *kernel_operation_of(const fv_kernel *kernel);

/* The most k that it takes. */
int64_t kernel_k_most(const fv_kernel *kernel);

#endif
