/* Where the float16 numbers of quantized blocks are: in a block of any bytes they may be NaN. */
#ifndef FOVEA_TESTS_BLOCK_HALVES_H
#define FOVEA_TESTS_BLOCK_HALVES_H

#include "fovea/types.h"

/* The i-th of a block, in bytes; -1: there are no more. */
static inline int block_half(fovea_dtype dtype, int i) {
    switch (dtype) {
    case FOVEA_DTYPE_MXFP4: return -1;
    case FOVEA_DTYPE_Q6_K: return i < 1 ? 208 : -1;
    case FOVEA_DTYPE_Q4_1:
    case FOVEA_DTYPE_Q5_1:
    case FOVEA_DTYPE_Q4_K:
    case FOVEA_DTYPE_Q5_K: return i < 2 ? 2 * i : -1;
    default: return i < 1 ? 0 : -1;
    }
}

#endif
