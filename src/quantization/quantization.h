/* Quantized weights (fovea/quantization.h): their checks, how they are packed for products (kernels/groups.h), and how
 * floats become such weights.
 *
 * A matrix is described by fv_quantized; matrices of one description are packed side by side in one operand, in panels
 * of fv_quantized_words(). Integers of a panel lie in chunks, each behind its scales: super-blocks, or groups, so that
 * both are read as one stream; or all of them in one.
 */
#ifndef FV_QUANTIZATION_H
#define FV_QUANTIZATION_H

#include "context/context.h"
#include "core/core.h"
#include "kernels.h"

#include <stdbool.h>

/* How the integers and scales of a matrix are packed. */
typedef struct fv_quantized {
    fv_format format;
    fv_scale_words scales;
    fv_table table;        /* of i4tg */
    int64_t group, groups; /* steps of a group, at most FV_I8_CHANNELS, and groups of a column */
    bool apart;            /* one chunk has all: kernels that take no gaps */
    const int32_t
        *order; /* act-order: step t is input channel order[t]; the caller's (fv_quantized_order()), or NULL */
} fv_quantized;

/* Steps of a chunk; words of 4 bytes of its scales, the last one of a panel having as many as any other; and words of
 * a panel's first steps, whole chunks or all. */
int64_t fv_quantized_chunk(const fv_quantized *q);
int64_t fv_quantized_gap(const fv_quantized *q, int64_t width);
int64_t fv_quantized_words(const fv_quantized *q, int64_t width, int64_t steps);

/* Is all well with a matrix of a type that is fv_dtype_quantized(): strides, quantization, groups, the values of its
 * scales and zeros? Any other matrix must have no quantization. name: as "the weight of part 2". */
fovea_status fv_quantized_check(const fovea_matrix *matrix, const char *name);

/* The description of a checked matrix; order is NULL. */
fv_quantized fv_quantized_of(const fovea_matrix *matrix);

/* Groups for arithmetic q8 (groups.h): those of more than FV_Q8_CHANNELS become that long, with the same scale, the
 * last one of a column shorter; but for several groups that are no multiple of it. */
void fv_quantized_split(fv_quantized *q, int64_t in);

/* Are both packed in one way? (Not: in one order.) */
static inline bool fv_quantized_alike(const fv_quantized *a, const fv_quantized *b) {
    return a->format == b->format && a->scales == b->scales && a->table == b->table && a->group == b->group &&
           a->groups == b->groups;
}

/* Has the matrix groups whose channels do not follow each other? Then writes order, [in]: channels group after group,
 * ascending in each. */
bool fv_quantized_order(const fovea_matrix *matrix, int32_t *order);

/* Are two checked matrices of as many channels packed in one way and order, so that they can lie side by side, and
 * taken apart again? */
bool fv_quantized_together(const fovea_matrix *a, const fovea_matrix *b);

/* Packs columns [first, first + count) of a checked matrix into columns from `place` on of a panel of `width` columns.
 * Integers behind the last step are 0. */
void fv_quantized_pack(const fovea_matrix *matrix, const fv_quantized *q, int64_t first, int64_t count, int64_t width,
                       int64_t place, void *panel);

/* The other way: column `place` of a panel as a row of a matrix of that type, contiguous: its blocks; or its integers
 * (packing PLAIN), channels in their own order, and then scales [groups of the type] and zeros, bytes, each of which
 * may be NULL. Groups that were split have one scale again: group_size is the matrix's. */
void fv_quantized_unpack(const fv_quantized *q, fovea_dtype dtype, int64_t in, int64_t group_size, int64_t width,
                         int64_t place, const void *panel, void *integers, void *column_scales, uint8_t *zeros);

/* The numbers that columns [first, first + count) of a checked matrix stand for: [count][in], channels in their
 * order. */
void fv_quantized_numbers(const fovea_matrix *matrix, int64_t first, int64_t count, float *to);

#endif
