/* Reads safetensors files: named arrays of numbers, as models are published.
 *
 *     safetensors *file;
 *     if (safetensors_open(path, &file, complaint) != 0) ...            the header is read and checked, nothing else
 *     const safetensors_tensor *t = safetensors_find(file, "wte.weight");
 *     if (safetensors_read_f32(file, t, floats, complaint) != 0) ...    one array at a time: a file may exceed memory
 *     safetensors_close(file);
 *
 * The format: a length n in 8 bytes, little-endian; n bytes of JSON, which give each array's name, dtype, shape and
 * place; the arrays. Functions that can fail return 0, or -1 with a sentence that names the file in the complaint. */
#ifndef MODELS_SAFETENSORS_H
#define MODELS_SAFETENSORS_H

#include "complain.h"

#include <stdint.h>

enum { SAFETENSORS_MOST_DIMS = 8 };

/* All element types of the format that are whole bytes; those that can be read are in safetensors_read_*. */
typedef enum safetensors_dtype {
    SAFETENSORS_BOOL,
    SAFETENSORS_U8,
    SAFETENSORS_I8,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E8M0,
    SAFETENSORS_I16,
    SAFETENSORS_U16,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I32,
    SAFETENSORS_U32,
    SAFETENSORS_F32,
    SAFETENSORS_I64,
    SAFETENSORS_U64,
    SAFETENSORS_F64,
    SAFETENSORS_C64,
    SAFETENSORS_DTYPES /* how many */
} safetensors_dtype;

/* The format's own word, as "F32"; "unknown" for any other value. Static string. */
const char *safetensors_dtype_name(safetensors_dtype dtype);

typedef struct safetensors_tensor {
    const char *name; /* owned by the file, without control characters */
    safetensors_dtype dtype;
    int dims; /* 0: one element */
    int64_t shape[SAFETENSORS_MOST_DIMS];
    int64_t elements;
    int64_t begin, bytes; /* its place in the file */
} safetensors_tensor;

/* One thread at a time. */
typedef struct safetensors safetensors;

/* Opens a file and checks all of its header: that it is JSON of the form above, no larger than 16 MiB and within the
 * file, that no name comes twice, that every array is as long as its dtype and shape say, and that the arrays fill the
 * rest of the file to the byte, with no overlap and no hole. *file is NULL after an error. */
int safetensors_open(const char *path, safetensors **file, complaint to);
void safetensors_close(safetensors *file); /* NULL is allowed */

const char *safetensors_path(const safetensors *file);

/* The arrays, in the order in which they lie in the file. */
int64_t safetensors_count(const safetensors *file);
const safetensors_tensor *safetensors_at(const safetensors *file, int64_t index);

/* The array of that name, or NULL. */
const safetensors_tensor *safetensors_find(const safetensors *file, const char *name);

/* The same, where it must be there and have that shape (-1 fits any size); NULL and a complaint if not. */
const safetensors_tensor *safetensors_need(const safetensors *file, const char *name, int dims, const int64_t *shape,
                                           complaint to);

/* All elements of an array as floats: F32, F16 and BF16 exactly, F64 rounded; other types are refused. */
int safetensors_read_f32(safetensors *file, const safetensors_tensor *tensor, float *values, complaint to);

/* The same of elements [first, first + count). */
int safetensors_read_part(safetensors *file, const safetensors_tensor *tensor, int64_t first, int64_t count,
                          float *values, complaint to);

/* Bytes [first, first + count) of an array of any type, of its tensor->bytes. */
int safetensors_read_bytes(safetensors *file, const safetensors_tensor *tensor, int64_t first, int64_t count,
                           void *bytes, complaint to);

/* All elements of an I32 array; other types are refused. */
int safetensors_read_i32(safetensors *file, const safetensors_tensor *tensor, int32_t *values, complaint to);

#endif
