/* Fovea: version, status, structs that may grow, element types, tensors and matrices. Part of fovea.h. */
#ifndef FOVEA_TYPES_H
#define FOVEA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 4
#define FOVEA_VERSION_PATCH 0
#define FOVEA_VERSION_STRING "0.4.0"

/* Version of the bits of results: releases with equal numbers give equal bits for equal calls. docs/stability.md. */
#define FOVEA_BITS_VERSION 1

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
    FOVEA_ERROR_SHAPE = 2,        /* a size is zero or negative, does not divide, or contradicts another */
    FOVEA_ERROR_OVERFLOW = 3,     /* sizes or strides whose product exceeds the address space */
    FOVEA_ERROR_STRIDE = 4,       /* channel stride is not 1, a stride is negative, or an output overlaps itself */
    FOVEA_ERROR_DTYPE = 5,        /* this operation does not take that element type */
    FOVEA_ERROR_ALIAS = 6,        /* an output overlaps an input, another output or the workspace */
    FOVEA_ERROR_WORKSPACE = 7,    /* the workspace is smaller than _workspace_size() says */
    FOVEA_ERROR_VERSION = 8,      /* a struct or a file has a version that this library does not read */
    FOVEA_ERROR_ARGUMENT = 9,     /* any other value is out of range */
    FOVEA_ERROR_ENVIRONMENT = 10, /* an environment variable has an unknown value */
    FOVEA_ERROR_UNSUPPORTED = 11, /* not possible on this CPU, in this build or in this combination */
    FOVEA_ERROR_OUT_OF_MEMORY = 12,
    FOVEA_ERROR_FILE = 13,         /* a file cannot be read or written, or is not safe to trust */
    FOVEA_ERROR_TUNING = 14,       /* not a tuning file, or truncated, damaged, or with impossible rows */
    FOVEA_ERROR_INCOMPATIBLE = 15, /* a good file, but of other CPUs, other builds or another cache */
    FOVEA_ERROR_BUSY = 16,         /* another process holds a lock: try again */
    FOVEA_ERROR_FULL = 17          /* a cache has too few free pages */
} fovea_status;

/* The constant's name, such as "FOVEA_ERROR_SHAPE"; "unknown status" for any other value. Static string,
 * thread-safe. */
FOVEA_API const char *fovea_status_name(fovea_status status);

/* A sentence about this thread's last failure ("q_heads 12 is not a multiple of kv_heads 5"), or "" before the first
 * one. Owned by the library, and valid until this thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_error_detail(void);

/* Version of the linked library, such as "0.4.0" (FOVEA_VERSION_STRING is the header's). Static string. */
FOVEA_API const char *fovea_version(void);

/* ------------------------------------------------------------------------------------------------------ structs -- */

/* The structs that may grow. Each begins with struct_size, the caller's sizeof, and has a function that initializes it:
 * fovea_attention_desc_init(&desc) for a fovea_attention_desc. It sets struct_size and the defaults that comments of
 * fields name; all other fields become 0: absent, none, or a size that you must set. Call it before you set fields.
 *
 * From version 0.4 on, structs grow only at the end. A program compiled against an older header has a smaller
 * struct_size: fields that it lacks get their defaults, and outputs are written only up to its size. A newer header has
 * a larger one, which this library refuses with FOVEA_ERROR_VERSION. It also refuses structs of versions before 0.4
 * whose fields were others (docs/upgrading.md).
 *
 * fovea_tensor, fovea_matrix, fovea_linear_part, fovea_embedding_table and fovea_attention_part have no struct_size:
 * they stand in arrays and in other structs, so they never grow. Set them whole, or begin with {0}. */
typedef enum fovea_struct {
    FOVEA_STRUCT_ACTIVATE_ARGS = 1,
    FOVEA_STRUCT_ATTENTION_ARGS = 2,
    FOVEA_STRUCT_ATTENTION_DESC = 3,
    FOVEA_STRUCT_ATTENTION_SCORES = 4,
    FOVEA_STRUCT_ATTENTION_STATS = 5,
    FOVEA_STRUCT_ATTENTION_SUMMARY = 6,
    FOVEA_STRUCT_CONTEXT_FACTS = 7,
    FOVEA_STRUCT_CONTEXT_OPTIONS = 8,
    FOVEA_STRUCT_EMBEDDING_ARGS = 9,
    FOVEA_STRUCT_KV_APPEND_ARGS = 10,
    FOVEA_STRUCT_KV_CACHE_DESC = 11,
    FOVEA_STRUCT_KV_PAGES = 12,
    FOVEA_STRUCT_KV_STATS = 13,
    FOVEA_STRUCT_LINEAR_ARGS = 14,
    FOVEA_STRUCT_LINEAR_DESC = 15,
    FOVEA_STRUCT_LINEAR_STATS = 16,
    FOVEA_STRUCT_MASK_DESC = 17,
    FOVEA_STRUCT_MHA_COSTS = 18,
    FOVEA_STRUCT_MHA_DESC = 19,
    FOVEA_STRUCT_MHA_WEIGHTS = 20,
    FOVEA_STRUCT_NORM_ARGS = 21,
    FOVEA_STRUCT_POOL_TOKENS_ARGS = 22,
    FOVEA_STRUCT_QUANTIZATION = 23,
    FOVEA_STRUCT_QUANTIZE_OPTIONS = 24,
    FOVEA_STRUCT_QUANTIZE_STATS = 25,
    FOVEA_STRUCT_ROPE_DESC = 26,
    FOVEA_STRUCT_TUNING_MATCH = 27,
    FOVEA_STRUCT_STATES = 28,
    FOVEA_STRUCT_DELTA_ARGS = 29,
    FOVEA_STRUCT_SCAN_ARGS = 30,
    FOVEA_STRUCT_CONV_ARGS = 31,
    FOVEA_STRUCT_STATE_CACHE_DESC = 32,
    FOVEA_STRUCT_ROUTER = 33,
    FOVEA_STRUCT_EXPERTS_DESC = 34,
    FOVEA_STRUCT_EXPERTS_WEIGHTS = 35,
    FOVEA_STRUCT_EXPERTS_ARGS = 36
} fovea_struct;

/* Does the work of the functions above, for languages that cannot call them. Initializes *object, a struct of this kind
 * and of size bytes. FOVEA_ERROR_NULL (the functions above ignore NULL), _ARGUMENT (size has no room for struct_size),
 * _VERSION (a kind that this library does not know): nothing is written. Thread-safe. */
FOVEA_API fovea_status fovea_struct_init(fovea_struct kind, void *object, size_t size);

/* Defines the function of one struct. */
#define FOVEA_DEFINE_INIT(name, type, kind)                                                                            \
    static inline void name(type *object) { (void)fovea_struct_init(kind, object, sizeof *object); }

/* ------------------------------------------------------------------------------------------------------- tensor -- */

typedef enum fovea_dtype {
    FOVEA_DTYPE_F32 = 1,  /* IEEE binary32, 4-byte aligned */
    FOVEA_DTYPE_BOOL = 2, /* one byte: 0 = masked, anything else = attend */
    FOVEA_DTYPE_BITS = 3, /* one byte, 8 flags: flag j of a row is bit j % 8 (lowest first) of byte j / 8 */
    FOVEA_DTYPE_I64 = 4,  /* int64_t, 8-byte aligned */
    FOVEA_DTYPE_BF16 = 5, /* bfloat16: the upper half of a binary32; 2-byte aligned */
    FOVEA_DTYPE_F16 = 6,  /* IEEE binary16, 2-byte aligned */
    FOVEA_DTYPE_I8 = 7,   /* int8_t with scales: of a cache (cache.h) or of weights (quantization.h) */

    /* For weights only (quantization.h). Integers with separate scales: */
    FOVEA_DTYPE_U4 = 8,       /* 4 bits without sign, two in a byte */
    FOVEA_DTYPE_U8 = 9,       /* uint8_t */
    FOVEA_DTYPE_F8_E4M3 = 21, /* E4M3FN: a sign, 4 bits of exponent, 3 of fraction, no infinity; with separate scales */
    /* Blocks of integers with scales inside, as GGUF files have them: */
    FOVEA_DTYPE_Q8_0 = 10,
    FOVEA_DTYPE_Q4_0 = 11,
    FOVEA_DTYPE_Q4_1 = 12,
    FOVEA_DTYPE_Q4_K = 13,
    FOVEA_DTYPE_Q5_K = 14,
    FOVEA_DTYPE_Q6_K = 15,
    FOVEA_DTYPE_Q5_0 = 17,
    FOVEA_DTYPE_Q5_1 = 18,
    FOVEA_DTYPE_MXFP4 = 19, /* floats of 4 bits */
    FOVEA_DTYPE_IQ4_NL = 20,

    FOVEA_DTYPE_I4 = 16 /* 4-bit integers with scales, two in a byte: keys and values of caches and pages (cache.h) */
} fovea_dtype;

/* Facts of an element type. Yes is 1, no is 0. */
typedef struct fovea_dtype_facts {
    const char *name; /* such as "f32" and "q4_k": the word of command lines, logs and tuning files */
    int bits;         /* of an element, without scales */
    /* The least that begins and ends with a byte: of F32 1 element in 4 bytes, of U4 2 in 1, of Q4_K 256 in 144. */
    int block_elements, block_bytes;
    int computed; /* x and y of linear maps, queries and outputs of attention may have it: F32, BF16 and F16 */
    int stored;   /* weights of linear maps may have it */
    int cached;   /* keys and values of caches and pages may have it */
    int scaled;   /* its integers have separate scales */
} fovea_dtype_facts;

/* The facts of an element type, or NULL for a value that is none. Values have no gaps: from 1 on, the first without
 * facts is past the last type. They are of the library in use, which may have more types than this header, and types
 * that its build leaves out (FOVEA_TYPES). The library owns them, and may append fields: do not copy the struct.
 * Thread-safe. */
FOVEA_API const fovea_dtype_facts *fovea_dtype_info(fovea_dtype dtype);

/* How attention and linear maps compute. Each arithmetic is one definition (docs/arithmetics.md; kernels/kernels.h has
 * the formulas). It gives the same bits on every tier, with any number of threads, in any batch. Only speed depends on
 * the CPU. */
typedef enum fovea_arithmetic {
    /* The default, for all types: float32 arithmetic on the operands' numbers, rounded once at the end. */
    FOVEA_ARITHMETIC_EXACT = 0,
    /* Attention of bfloat16 q, k and v: like EXACT, but exponentials of scores are rounded to bfloat16 before they are
     * summed and multiply values. Linear maps give the bits of EXACT. */
    FOVEA_ARITHMETIC_BF16 = 1,
    /* bfloat16 operands: like BF16, with all sums in blocks of 32 products, as AMX computes them. */
    FOVEA_ARITHMETIC_BF16_TILE = 2,
    /* An option: the fastest of these on such a CPU, as measured, for this operation and these types. Sizes, threads
     * and tuning do not matter. It never chooses BF16_TILE, which has not been timed on a CPU with AMX. A plan reports
     * its choice (fovea_attention_plan_arithmetic()); ask for that one to get the same bits elsewhere. The environment
     * variable FOVEA_ARITHMETIC overrides it (context.h). */
    FOVEA_ARITHMETIC_FASTEST = 3,
    /* The default of linear maps: Q16 if the weights are quantized, else EXACT. */
    FOVEA_ARITHMETIC_DEFAULT = 4,
    /* Linear maps of quantized weights. A row of x becomes integers of 15 bits with a scale for each group of weights,
     * sums of a group are exact integers, and float32 adds groups. Errors are about 5e-5 of the result (docs/types.md),
     * and it is much faster than EXACT. */
    FOVEA_ARITHMETIC_Q16 = 5,
    /* The same with integers of 8 bits and a scale for at most 128 channels: less accurate, and faster for many rows on
     * CPUs with units for it. Larger groups are cut into 128 channels each. If 128 does not divide them, one group of
     * all channels ends with a shorter part; of several groups, each stays whole. */
    FOVEA_ARITHMETIC_Q8 = 6
} fovea_arithmetic;

/* "exact", "bf16", "bf16_tile", "fastest", "default", "q16", "q8"; "unknown" for any other value. Static string,
 * thread-safe. */
FOVEA_API const char *fovea_arithmetic_name(fovea_arithmetic arithmetic);

/* How integers of a matrix represent numbers: quantization.h. Tensors have none: theirs must be NULL. */
typedef struct fovea_quantization fovea_quantization;

/* A view of the caller's memory, [batch, head, token, channel]. Element (b,h,t,c) is data[b*stride[0] + h*stride[1] +
 * t*stride[2] + c*stride[3]]. The channel stride is 1 (masks and biases: 1, or 0 to broadcast). Other strides are from
 * 0 to 2^48; 0 repeats an input. So BHTD, BTHD and packed QKV differ only in strides. The strides of an empty tensor
 * are ignored. The library never owns or frees data. */
typedef struct fovea_tensor {
    void *data;
    fovea_dtype dtype;
    int64_t shape[4];
    int64_t stride[4];
    const fovea_quantization *quantization; /* NULL: the elements are the numbers */
} fovea_tensor;

/* Contiguous [batch, heads, tokens, channels] memory. Cannot fail: the function that takes the tensor checks it. */
FOVEA_API fovea_tensor fovea_tensor_bhtd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                         int64_t channels);

/* Contiguous [batch, tokens, heads, channels] memory, viewed as [batch, head, token, channel]. Sizes are given in the
 * order of the memory. */
FOVEA_API fovea_tensor fovea_tensor_bthd(void *data, fovea_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                                         int64_t channels);

/* A view of count tokens, from first on: for example the filled part of a cache, or the place of its next token. Memory
 * and strides stay the same. If the tensor does not have these tokens, shape[2] is -1, which the function that takes
 * the view refuses. */
FOVEA_API fovea_tensor fovea_tensor_tokens(fovea_tensor tensor, int64_t first, int64_t count);

/* ------------------------------------------------------------------------------------------------------- matrix -- */

/* A view of the caller's weights: element (i, o), from input channel i to output channel o, is data[i*in_stride +
 * o*out_stride], strides >= 0. The library never owns or frees data. */
typedef struct fovea_matrix {
    const void *data;
    fovea_dtype dtype;
    int64_t in, out;
    int64_t in_stride, out_stride;
    const fovea_quantization *quantization; /* NULL: the elements are the numbers */
} fovea_matrix;

/* Contiguous [in, out] memory, as papers write x W. Cannot fail: the function that takes the matrix checks it. */
FOVEA_API fovea_matrix fovea_matrix_in_out(const void *data, fovea_dtype dtype, int64_t in, int64_t out);

/* Contiguous [out, in] memory, as PyTorch's nn.Linear stores it. */
FOVEA_API fovea_matrix fovea_matrix_out_in(const void *data, fovea_dtype dtype, int64_t out, int64_t in);

#ifdef __cplusplus
}
#endif
#endif
