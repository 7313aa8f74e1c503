/* The table of kernels that this build has, made from kernels/kernels.inc. */
#ifndef FV_REGISTRY_H
#define FV_REGISTRY_H

#include "kernels.h"

#include <stdbool.h>

extern const fv_kernel fv_kernels[];
extern const int fv_kernel_count;

/* The first (best) row of the operation and element type whose tier is at most cap: never NULL if there are any, as one
 * of them is scalar. */
const fv_kernel *fv_kernel_best(fv_op op, fv_type type, fv_isa cap);

/* Is it a row of that operation, type and tier? */
static inline bool fv_kernel_is(const fv_kernel *kernel, fv_op op, fv_type type, fv_isa isa) {
    return kernel->op == op && kernel->type == type && kernel->isa == isa;
}

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
