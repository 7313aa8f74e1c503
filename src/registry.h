/* The table of kernels that this build has, made from kernels/kernels.inc. */
#ifndef FV_REGISTRY_H
#define FV_REGISTRY_H

#include "kernels.h"

extern const fv_kernel fv_kernels[];
extern const int fv_kernel_count;

/* The first (best) row of the operation whose tier is at most cap; every operation has a scalar row, so never NULL. */
const fv_kernel *fv_kernel_best(fv_op op, fv_isa cap);

/* The row of that name, or NULL. */
const fv_kernel *fv_kernel_named(const char *name);

/* Floats in a vector of the tier. */
int fv_isa_lanes(fv_isa isa);

/* "scalar", "avx2", ... */
const char *fv_isa_word(fv_isa isa);

#endif
