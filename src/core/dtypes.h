/* Facts of element types, of the one list of them (dtypes.inc). */
#ifndef FV_DTYPES_H
#define FV_DTYPES_H

#include "fovea/types.h"

#include <stdbool.h>

enum {
    FV_DTYPES = 1 /* values begin with 1, and have no gaps */
#define FV_DTYPE(name, word, bits, elements, bytes) +1
#include "core/dtypes.inc"
};

/* By value; 0 has the facts of any other value: no name, bytes. */
extern const fovea_dtype_facts fv_dtypes[FV_DTYPES];

static inline const fovea_dtype_facts *fv_dtype_of(fovea_dtype dtype) {
    return &fv_dtypes[(unsigned)dtype < FV_DTYPES ? dtype : 0];
}

/* Bits of an element, without scales. */
static inline int fv_dtype_bits(fovea_dtype dtype) { return fv_dtype_of(dtype)->bits; }

/* Bytes of an element of a tensor. */
static inline int64_t fv_dtype_size(fovea_dtype dtype) { return fv_dtype_bits(dtype) / 8; }

/* Bytes of elements that begin and end with a byte, or a block. */
static inline int64_t fv_dtype_bytes(fovea_dtype dtype, int64_t elements) {
    const fovea_dtype_facts *facts = fv_dtype_of(dtype);
    return elements / facts->block_elements * facts->block_bytes;
}

/* Whether they are weights as integers with scales, separate or inside. */
static inline bool fv_dtype_quantized(fovea_dtype dtype) {
    return fv_dtype_of(dtype)->stored && !fv_dtype_of(dtype)->computed;
}

/* Whether they are such with separate scales. */
static inline bool fv_dtype_scaled(fovea_dtype dtype) {
    return fv_dtype_quantized(dtype) && fv_dtype_of(dtype)->scaled;
}

/* Elements and bytes of a block with its scales inside; one element of a type that has none. */
typedef struct fv_dtype_block {
    int elements, bytes;
} fv_dtype_block;

static inline fv_dtype_block fv_dtype_block_of(fovea_dtype dtype) {
    const fovea_dtype_facts *facts = fv_dtype_of(dtype);
    return facts->scaled ? (fv_dtype_block){1, facts->bits / 8}
                         : (fv_dtype_block){facts->block_elements, facts->block_bytes};
}

/* Are they integers of keys or values in pages? */
static inline bool fv_dtype_paged(fovea_dtype dtype) {
    return fv_dtype_of(dtype)->cached && !fv_dtype_of(dtype)->computed;
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
    if (fv_dtype_quantized(dtype) || fv_dtype_paged(dtype))
        return false;
#endif
    return true;
}

/* The words of types of numbers, of keys and values in a cache, and of weights, each ended by NULL; and their types. */
extern const char *const fv_dtype_words[], *const fv_kv_dtype_words[], *const fv_weight_dtype_words[];
extern const fovea_dtype fv_dtype_of_word[], fv_kv_dtype_of_word[];

/* The word of a type; NULL for a value that is none. */
static inline const char *fv_dtype_word(fovea_dtype dtype) { return fv_dtype_of(dtype)->name; }

#endif
