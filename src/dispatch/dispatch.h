/* The table of kernels that this build has, made from kernels/kernels.inc, and the look-ups in it. */
#ifndef FV_DISPATCH_H
#define FV_DISPATCH_H

#include "cpu/cpu.h"
#include "dispatch/prefetch.h"
#include "dispatch/tiles.h"
#include "fovea/types.h"
#include "kernels.h"

#include <stdbool.h>

extern const fv_kernel fv_kernels[];
extern const int fv_kernel_count;

/* The first (best) row of the operation and element type that the target can run: never NULL if there are any, as one of
 * them is scalar and needs no feature. */
const fv_kernel *fv_kernel_best(fv_op op, fv_type type, fv_target target);

/* The row of the portable tier, whose bits the others give. */
const fv_kernel *fv_kernel_scalar(fv_op op, fv_type type);

/* Can the target run it: has it the row's tier and features? */
static inline bool fv_kernel_runs(const fv_kernel *kernel, fv_target target) {
    return fv_target_has(target, kernel->isa, kernel->features);
}

/* Is it a row of that operation and type that the target can run: a legal choice? */
static inline bool fv_kernel_is(const fv_kernel *kernel, fv_op op, fv_type type, fv_target target) {
    return kernel->op == op && kernel->type == type && fv_kernel_runs(kernel, target);
}

/* Are they rows of one operation, type, tier and set of features, which differ in their tiles alone? */
static inline bool fv_kernel_alike(const fv_kernel *a, const fv_kernel *b) {
    return a->op == b->op && a->type == b->type && a->isa == b->isa && a->features == b->features;
}

/* The kernels' word for an element type of 16 bits, or float32; FV_TYPE_COUNT: they have none. */
static inline fv_type fv_type_of(fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_F32    ? FV_TYPE_f32
           : dtype == FOVEA_DTYPE_BF16 ? FV_TYPE_bf16
           : dtype == FOVEA_DTYPE_F16  ? FV_TYPE_f16
                                       : FV_TYPE_COUNT;
}

/* What makes floats of an element type, and elements of floats; NULL: they are floats. */
fv_widen_bf16_fn *fv_widen_of(fovea_dtype dtype, fv_target target);
fv_narrow_bf16_fn *fv_narrow_of(fovea_dtype dtype, fv_target target);

/* n elements of a type, stride apart, as floats. */
void fv_to_floats(int64_t n, const void *from, int64_t stride, fovea_dtype dtype, float *to, fv_target target);

/* The row of that name, or NULL. */
const fv_kernel *fv_kernel_named(const char *name);

/* ----------------------------------------------------------------------------------------------- gemms (gemm.c) -- */

/* What a gemm costs for that many rows and columns, for each step of k and row, by a model of a core: for comparing. */
double fv_gemm_cost(const fv_kernel *gemm, int64_t rows, int64_t columns);

/* Of the best gemm and those alike: the cheapest for that many rows and columns; of those that are equal the one whose
 * panels are narrower, then the first in the list. NULL if there is no gemm of the type. */
const fv_kernel *fv_gemm_for(fv_type type, fv_target target, int64_t rows, int64_t columns);

/* The same, of those that take all rows in one tile, if there are any: the cost above is that of tiles full of rows. */
const fv_kernel *fv_gemm_for_tile(fv_type type, fv_target target, int64_t rows, int64_t columns);

/* The same where b comes from beyond the caches, as one tile fetches it ahead and reads it once. */
const fv_kernel *fv_gemm_for_stream(fv_type type, fv_target target, int64_t rows, int64_t columns);

#endif
