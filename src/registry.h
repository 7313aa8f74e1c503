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

/* The tier below, which every CPU of this tier has also; FV_ISA_none below the portable one. */
fv_isa fv_isa_below(fv_isa isa);

/* The best tier that is at or below both. */
fv_isa fv_isa_capped(fv_isa isa, fv_isa cap);

/* Floats in a vector of the tier. */
int fv_isa_lanes(fv_isa isa);

/* "scalar", "avx2", ... */
const char *fv_isa_word(fv_isa isa);

#endif
