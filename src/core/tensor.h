/* Checks of tensors at the public edge. */
#ifndef FV_TENSOR_H
#define FV_TENSOR_H

#include "fovea/fovea.h"

#include <stdbool.h>

/* The conditions that a tensor must meet. */
typedef struct fv_tensor_rule {
    const char *name; /* for the sentence */
    fovea_dtype dtype;
    int64_t shape[4];
    bool output;    /* elements must not share memory */
    bool broadcast; /* sizes of 1 and a channel stride of 0 are allowed */
} fv_tensor_rule;

/* The bytes from the first element to the last, [begin, end). */
typedef struct fv_span {
    const char *name;
    uintptr_t begin, end;
} fv_span;

/* Bits of an element; 0 of types that come in blocks. */
static inline int fv_dtype_bits(fovea_dtype dtype) {
#define FV_DTYPE(name, bits, word)                                                                                     \
    if (dtype == FOVEA_DTYPE_##name)                                                                                   \
        return bits;
#include "core/dtypes.inc"
    return 8;
}

/* Bytes of an element of a tensor. */
static inline int64_t fv_dtype_size(fovea_dtype dtype) { return fv_dtype_bits(dtype) / 8; }

/* Elements and bytes of a block; 1 element of a type that has none. */
typedef struct fv_dtype_block {
    int elements, bytes;
} fv_dtype_block;

static inline fv_dtype_block fv_dtype_block_of(fovea_dtype dtype) {
#define FV_DTYPE_BLOCKS(name, elements, bytes, word)                                                                   \
    if (dtype == FOVEA_DTYPE_##name)                                                                                   \
        return (fv_dtype_block){elements, bytes};
#include "core/dtypes.inc"
    return (fv_dtype_block){1, (int)fv_dtype_size(dtype)};
}

/* Bytes of elements that begin and end with a byte, or a block. */
static inline int64_t fv_dtype_bytes(fovea_dtype dtype, int64_t elements) {
    const fv_dtype_block block = fv_dtype_block_of(dtype);
    return block.elements > 1 ? elements / block.elements * block.bytes : elements * fv_dtype_bits(dtype) / 8;
}

/* Whether they are integers with separate scales. */
static inline bool fv_dtype_scaled(fovea_dtype dtype) {
    bool scaled = false;
#define FV_DTYPE_SCALED(name, bits, word) scaled = scaled || dtype == FOVEA_DTYPE_##name;
#define FV_DTYPE_WEIGHTS FV_DTYPE_SCALED
#include "core/dtypes.inc"
    return scaled;
}

/* Whether they are integers with scales, separate or inside. */
static inline bool fv_dtype_quantised(fovea_dtype dtype) {
    return fv_dtype_scaled(dtype) || fv_dtype_block_of(dtype).elements > 1;
}

/* Are they integers of keys or values in pages? */
static inline bool fv_dtype_paged(fovea_dtype dtype) {
    bool paged = false;
#define FV_DTYPE(name, bits, word)
#define FV_DTYPE_SCALED(name, bits, word) paged = paged || dtype == FOVEA_DTYPE_##name;
#define FV_DTYPE_PAGES FV_DTYPE_SCALED
#include "core/dtypes.inc"
    return paged;
}

/* Has this build kernels of the type? Others are refused (FOVEA_TYPES of CMakeLists.txt). */
static inline bool fv_dtype_built(fovea_dtype dtype) {
    (void)dtype;
#ifdef FV_WITHOUT_BF16
    if (dtype == FOVEA_DTYPE_BF16)
        return false;
#endif
#ifdef FV_WITHOUT_F16
    if (dtype == FOVEA_DTYPE_F16)
        return false;
#endif
#ifdef FV_WITHOUT_I8
    if (fv_dtype_quantised(dtype) || fv_dtype_paged(dtype))
        return false;
#endif
    return true;
}

/* Has it no elements? Then nobody looks at its strides: numpy, say, gives empty arrays any. */
static inline bool fv_tensor_empty(const fovea_tensor *t) {
    return t->shape[0] == 0 || t->shape[1] == 0 || t->shape[2] == 0 || t->shape[3] == 0;
}

/* A tensor whose axes of size 1 have stride 0: any index finds their one element. */
fovea_tensor fv_tensor_repeated(const fovea_tensor *tensor);

/* Checks a tensor whose data is not NULL and gives its span, an empty one if it has no elements. */
fovea_status fv_tensor_check(const fovea_tensor *tensor, const fv_tensor_rule *rule, fv_span *span);

/* The span of lengths or offsets, one for each sequence of the batch; empty if there are none. */
fv_span fv_lens_span(const char *name, const int64_t *lens, int64_t batch);

/* The span of a struct that begins with struct_size; empty if there is none. */
fv_span fv_struct_span(const char *name, const void *given);

/* Fails if the spans share a byte. */
fovea_status fv_spans_disjoint(const fv_span *a, const fv_span *b);

/* Fails if a span that is written shares a byte with another one, or any with the workspace. Leaves only those in both
 * arrays that are not empty: of what a call may be given, most is absent. */
fovea_status fv_spans_apart(fv_span *spans, bool *written, int count, const fv_span *workspace);

#endif
