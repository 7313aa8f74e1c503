/* The table of kernels that this build has, made from kernels/kernels.inc, and the look-ups in it. */
#ifndef FV_DISPATCH_H
#define FV_DISPATCH_H

#include "dispatch/prefetch.h"
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

/* ----------------------------------------------------------------------------------------------- gemms (gemm.c) -- */

/* What a gemm costs for that many rows and columns, for each step of k and row, by a model of a core: for comparing. */
double fv_gemm_cost(const fv_kernel *gemm, int64_t rows, int64_t columns);

/* The cheapest gemm of the type and tier for that many rows and columns; of those that are equal the one whose panels
 * are narrower, then the first in the list. NULL if the tier has no gemm of the type. */
const fv_kernel *fv_gemm_for(fv_type type, fv_isa isa, int64_t rows, int64_t columns);

/* The same, of those that take all rows in one tile, if there are any: the cost above is that of tiles full of rows. */
const fv_kernel *fv_gemm_for_tile(fv_type type, fv_isa isa, int64_t rows, int64_t columns);

/* The same where b comes from beyond the caches, as one tile fetches it ahead and reads it once. */
const fv_kernel *fv_gemm_for_stream(fv_type type, fv_isa isa, int64_t rows, int64_t columns);

#endif
