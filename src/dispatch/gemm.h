/* Which gemm of a tier suits a product. */
#ifndef FV_GEMM_H
#define FV_GEMM_H

#include "dispatch/registry.h"

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
