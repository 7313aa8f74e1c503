/* Which gemm of a tier suits a product. */
#ifndef FV_GEMM_H
#define FV_GEMM_H

#include "registry.h"

/* The cheapest gemm of the tier for that many rows and columns, the first in the list of those that are equal. */
const fv_kernel *fv_gemm_for(fv_isa isa, int64_t rows, int64_t columns);

#endif
