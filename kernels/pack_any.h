/* Packs matrices of any strides into operands, and copies them back. Not a kernel: weights are packed once, and the
 * loads decide how long that takes. */
#ifndef FV_PACK_ANY_H
#define FV_PACK_ANY_H

#include "kernels.h"

/* Element t of column j is data[t*step + j*column]. */
typedef struct fv_matrix {
    const void *data;
    int64_t steps, columns;
    int64_t step, column; /* strides, in elements of bits / 8 bytes */
    int bits;
    fv_widen_bf16_fn *widen; /* of 16 bits, where they go into floats */
    const float *scales;     /* [columns], of 8 bits that go into floats: each is multiplied by its column's, rounded */
    float scale;             /* of floats: each is multiplied by it */
} fv_matrix;

/* Writes the columns of a matrix to columns of an operand from `column` on, which lie in one panel, and +0 behind the
 * last step of a word. words: the operand's data. */
void fv_pack_any(const fv_matrix *matrix, const fv_operand *operand, void *words, int64_t column);

/* Copies a column back: its elements, one behind the other. */
void fv_unpack_any(const fv_operand *operand, int64_t column, void *elements);

#endif
