/* Fovea: version, status, element types, tensors and matrices. Part of fovea.h.
 *
 * Structs that may grow begin with struct_size, the caller's sizeof. The _init macro of the struct sets it and the
 * defaults: call it before setting fields. (Where there are no macros, as from another language, call the function
 * behind it, which is named _init_size and takes the size.) A smaller struct_size is that of a program compiled against
 * an older header: fields that it does not have get their defaults, and outputs are written up to its size. A larger
 * one, of a newer header, is refused with FOVEA_ERROR_VERSION. fovea_tensor, fovea_matrix and fovea_linear_part stand in
 * arrays and in other structs, so they never grow. */
#ifndef FOVEA_TYPES_H
#define FOVEA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 2
#define FOVEA_VERSION_PATCH 0
#define FOVEA_VERSION_STRING "0.2.0"

#if defined(__GNUC__) || defined(__clang__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------------------- status -- */

typedef enum fovea_status {
    FOVEA_OK = 0,
    FOVEA_ERROR_NULL = 1,         /* a required pointer is NULL */
    FOVEA_ERROR_SHAPE = 2,        /* a size is zero, negative, does not divide, or two shapes disagree */
    FOVEA_ERROR_OVERFLOW = 3,     /* sizes or strides whose product does not fit in memory */
    FOVEA_ERROR_STRIDE = 4,       /* channel stride is not 1, a stride is negative, or an output overlaps itself */
    FOVEA_ERROR_DTYPE = 5,        /* an element type that this operation does not take */
    FOVEA_ERROR_ALIAS = 6,        /* an output overlaps an input, another output or the workspace */
    FOVEA_ERROR_WORKSPACE = 7,    /* a workspace smaller than the _workspace_size() of its object */
    FOVEA_ERROR_VERSION = 8,      /* a struct or a tuning file of a newer version than this library */
    FOVEA_ERROR_ARGUMENT = 9,     /* any other value out of its range */
    FOVEA_ERROR_ENVIRONMENT = 10, /* FOVEA_ISA names no tier of this library */
    FOVEA_ERROR_UNSUPPORTED = 11, /* asks for what this CPU, this build or this form of a layer does not have */
    FOVEA_ERROR_OUT_OF_MEMORY = 12,
    FOVEA_ERROR_FILE = 13,    /* a file that cannot be read or written, or that is not to be trusted */
    FOVEA_ERROR_TUNING = 14,  /* not a tuning file, cut, damaged, or with rows that cannot be */
    FOVEA_ERROR_FOREIGN = 15, /* a sound tuning file for other CPUs or other (as older) builds of this library */
    FOVEA_ERROR_BUSY = 16     /* another process holds a lock: try again */
} fovea_status;

/* The constant's name, as "FOVEA_ERROR_SHAPE"; "unknown status" for any other value. Static string, thread-safe. */
FOVEA_API const char *fovea_status_name(fovea_status status);

/* A sentence about this thread's last failure ("q_heads 12 is not a multiple of kv_heads 5"), "" before the first.
 * Owned by the library; valid until this thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_error_detail(void);

/* Version of the library that is linked, as "0.2.0" (FOVEA_VERSION_STRING is the header's). Static string. */
FOVEA_API const char *fovea_version(void);

/* ------------------------------------------------------------------------------------------------------- tensor -- */

typedef enum fovea_dtype {
    FOVEA_DTYPE_F32 = 1, /* IEEE binary32, 4-byte aligned */
    FOVEA_DTYPE_BOOL = 2, /* one byte: 0 = masked, anything else = attend */
    FOVEA_DTYPE_BITS = 3, /* one byte, 8 flags: flag j of a row is bit j % 8 (lowest first) of byte j / 8 */
    FOVEA_DTYPE_I64 = 4   /* int64_t, 8-byte aligned */
} fovea_dtype;

/* How integers stand for numbers: scales, and what they belong to. No operation of this version takes any: every pointer
 * to one is NULL. */
typedef struct fovea_quantisation fovea_quantisation;

/* A view of the caller's memory, [batch, head, token, channel]. Element (b,h,t,c) is data[b*stride[0] + h*stride[1] +
 * t*stride[2] + c*stride[3]]. The channel stride is 1 (masks: 1, or 0 to broadcast); others are from 0 to 2^48, and 0
 * repeats an input. So BHTD, BTHD and packed QKV are all just strides. Strides of a tensor without elements are not
 * looked at. Never owned, never freed. data == NULL: absent.
 */
typedef struct fovea_tensor {
    void *data;
    fovea_dtype dtype;
    int64_t shape[4];
    int64_t stride[4];
    const fovea_quantisation *quantisation; /* NULL: the elements are the numbers */
} fovea_tensor;

/* Contiguous [batch, heads, tokens, channels] memory. Cannot fail: bad sizes are found by the function it is given to.
 */
FOVEA_API fovea_tensor fovea_tensor_bhtd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                         int64_t channels);

/* Contiguous [batch, tokens, heads, channels] memory, viewed as [batch, head, token, channel]. Sizes are given in the
 * order of the memory. */
FOVEA_API fovea_tensor fovea_tensor_bthd(void *data, fovea_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                                         int64_t channels);

/* The count tokens from first on, as a view of the same memory with the same strides: of a cache with room for 4096
 * tokens, the 100 that are filled, or the place of the next one. Of tokens that the tensor does not have, shape[2] is
 * -1, which the function it is given to refuses. */
FOVEA_API fovea_tensor fovea_tensor_tokens(fovea_tensor tensor, int64_t first, int64_t count);

/* ------------------------------------------------------------------------------------------------------- matrix -- */

/* A view of the caller's weights: element (i, o), from input channel i to output channel o, is data[i*in_stride +
 * o*out_stride], strides >= 0. Never owned. data == NULL: absent. */
typedef struct fovea_matrix {
    const void *data;
    fovea_dtype dtype;
    int64_t in, out;
    int64_t in_stride, out_stride;
    const fovea_quantisation *quantisation; /* NULL: the elements are the numbers */
} fovea_matrix;

/* Contiguous [in, out] memory, as papers write x W. Cannot fail: bad sizes are found by the function it is given to. */
FOVEA_API fovea_matrix fovea_matrix_in_out(const void *data, fovea_dtype dtype, int64_t in, int64_t out);

/* Contiguous [out, in] memory, as PyTorch's nn.Linear keeps it. */
FOVEA_API fovea_matrix fovea_matrix_out_in(const void *data, fovea_dtype dtype, int64_t out, int64_t in);

#ifdef __cplusplus
}
#endif
#endif
