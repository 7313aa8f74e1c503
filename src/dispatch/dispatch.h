/* The table of kernels that this build has, made from kernels/kernels.inc, and the look-ups in it. */
#ifndef FV_DISPATCH_H
#define FV_DISPATCH_H

#include "core/core.h"
#include "cpu/cpu.h"
#include "dispatch/ops.h"
#include "dispatch/prefetch.h"
#include "dispatch/tiles.h"
#include "fovea/types.h"
#include "kernels.h"

#include <stdbool.h>

extern const fv_kernel fv_kernels[];
extern const int fv_kernel_count;

/* The first (best) row of the operation and element type that the target can run: never NULL if there are any, as one
 * of them is scalar and needs no feature. */
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

/* Is it a row of that product, for many rows or for few? */
static inline bool fv_multiply_is(const fv_kernel *kernel, fv_kind kind, fv_format format, bool few) {
    return kernel->op == FV_OP_multiply && kernel->kind == kind && kernel->format == format && kernel->few == few;
}

/* Is it a product of few rows that takes keys, as they lie (kernels.h)? */
static inline bool fv_multiply_keys(const fv_kernel *kernel) {
    return kernel->op == FV_OP_multiply && kernel->few &&
           (kernel->format == FV_FORMAT_i8x4 || kernel->format == FV_FORMAT_bf16x2 ||
            fv_format_of(kernel->format).word == FV_WORD_column);
}

/* Is it a product of floats of many rows, which the target can run: what tuning chooses among? */
static inline bool fv_multiply_tuned(const fv_kernel *kernel, fv_target target) {
    return fv_multiply_is(kernel, FV_KIND_f32, FV_FORMAT_f32, false) && fv_kernel_runs(kernel, target);
}

/* Do they the same, whichever tier, features and tiles they have? */
static inline bool fv_kernel_same_task(const fv_kernel *a, const fv_kernel *b) {
    return a->op == b->op && a->type == b->type && a->kind == b->kind && a->source == b->source &&
           a->format == b->format && a->few == b->few;
}

/* Are they rows of one task, tier and set of features, which differ in their tiles alone? */
static inline bool fv_kernel_alike(const fv_kernel *a, const fv_kernel *b) {
    return fv_kernel_same_task(a, b) && a->isa == b->isa && a->features == b->features;
}

/* The best row of a product that the target can run, for many rows, or for few (at most its mr); NULL: there is
 * none. */
const fv_kernel *fv_multiply_best(fv_kind kind, fv_format format, fv_target target);
const fv_kernel *fv_multiply_few(fv_kind kind, fv_format format, fv_target target);

/* The best product of integers, for many rows or for few: of those that are as good the first kind. Bytes alone hold
 * integers of q8. */
const fv_kernel *fv_multiply_integers(fv_format format, bool few, bool bytes, fv_target target);

/* The best row that packs a source in a format, and that unpacks a format; NULL: there is none. */
const fv_kernel *fv_pack_best(fv_source source, fv_format format, fv_target target);
const fv_kernel *fv_unpack_best(fv_format format, fv_target target);

/* The best product of words of two elements of 16 bits, both sides of that type. */
static inline const fv_kernel *fv_multiply_pairs(fv_type type, fv_target target) {
    return type == FV_TYPE_bf16 ? fv_multiply_best(FV_KIND_bf16x2, FV_FORMAT_bf16x2, target)
                                : fv_multiply_best(FV_KIND_f16x2, FV_FORMAT_f16x2x4, target);
}

/* The row of the portable tier whose bits a row gives. */
const fv_kernel *fv_kernel_reference(const fv_kernel *kernel);

/* The kernels' word for an element type of 16 bits, or float32; FV_TYPE_COUNT: they have none, or not in this build. */
static inline fv_type fv_type_of(fovea_dtype dtype) {
    return !fv_dtype_built(dtype)      ? FV_TYPE_COUNT
           : dtype == FOVEA_DTYPE_F32  ? FV_TYPE_f32
           : dtype == FOVEA_DTYPE_BF16 ? FV_TYPE_bf16
           : dtype == FOVEA_DTYPE_F16  ? FV_TYPE_f16
                                       : FV_TYPE_COUNT;
}

/* The format of rows of an element type as a tensor or a cache has them, a row a step. */
static inline fv_format fv_format_as_it_lies(fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_F32    ? FV_FORMAT_f32
           : dtype == FOVEA_DTYPE_BF16 ? FV_FORMAT_bf16
           : dtype == FOVEA_DTYPE_F16  ? FV_FORMAT_f16
                                       : FV_FORMAT_i8;
}

/* The format of keys as a tensor has them, one behind the other: no int8. */
static inline fv_format fv_format_in_rows(fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_F32    ? FV_FORMAT_f32_rows
           : dtype == FOVEA_DTYPE_BF16 ? FV_FORMAT_bf16_rows
                                       : FV_FORMAT_f16_rows;
}

/* That of keys of a cache, in panels of FV_KEY_GROUP: float16 is widened faster one by one. */
static inline fv_format fv_format_interleaved(fovea_dtype dtype) {
    return dtype == FOVEA_DTYPE_F32    ? FV_FORMAT_f32
           : dtype == FOVEA_DTYPE_BF16 ? FV_FORMAT_bf16x2
           : dtype == FOVEA_DTYPE_F16  ? FV_FORMAT_f16
           : dtype == FOVEA_DTYPE_I4   ? FV_FORMAT_i4g
                                       : FV_FORMAT_i8x4;
}

/* Elements of a key that share a word there. */
static inline int64_t fv_interleaved_word(fovea_dtype dtype) {
    return fv_format_of(fv_format_interleaved(dtype)).per_word;
}

/* Kernels that widen a type to floats, and narrow floats to it; NULL for floats and integers. */
fv_widen_bf16_fn *fv_widen_of(fovea_dtype dtype, fv_target target);
fv_narrow_bf16_fn *fv_narrow_of(fovea_dtype dtype, fv_target target);

/* n elements of a type, stride apart, as floats. */
void fv_to_floats(int64_t n, const void *from, int64_t stride, fovea_dtype dtype, float *to, fv_target target);

/* The row of that name, or NULL. */
const fv_kernel *fv_kernel_named(const char *name);

/* ------------------------------------------------------------------------------- products of floats (multiply.c) -- */

/* The cost of a product for that many rows and columns, for each step of k and row, by a model of a core: for
 * comparing. */
double fv_multiply_cost(const fv_kernel *multiply, int64_t rows, int64_t columns);

/* The cheapest product of floats for that many rows and columns, among those with the best one's features; if costs
 * are equal, the one with narrower panels, then the first in the list. */
const fv_kernel *fv_multiply_for(fv_target target, int64_t rows, int64_t columns);

/* The same, of those that take all rows in one tile, if there are any: the cost above is that of tiles full of rows. */
const fv_kernel *fv_multiply_for_tile(fv_target target, int64_t rows, int64_t columns);

/* The same where b comes from beyond the caches, as one tile fetches it ahead and reads it once. */
const fv_kernel *fv_multiply_for_stream(fv_target target, int64_t rows, int64_t columns);

#endif
