/* The weights of a map while it is made: what they were read from, and what is freed when they are packed. */
#ifndef PY_LINEAR_WEIGHTS_H
#define PY_LINEAR_WEIGHTS_H

#include "linear.h"

enum { PY_WEIGHTS_ARRAYS = 5 };

/* One matrix: what part points to. */
typedef struct py_weights {
    fovea_linear_part *part;
    fovea_quantization quantization; /* of part->weight, if it has one */
    py_array arrays[PY_WEIGHTS_ARRAYS];
    int opened;
    void *memory, *groups; /* from malloc, or NULL */
} py_weights;

/* Common to the constructors of a map. pack() opens the parts, and packs them. */
typedef struct py_linear_making py_linear_making;
struct py_linear_making {
    py_core *core;
    PyObject *weight, *bias, *scales, *heads, *dtype, *arithmetic; /* arguments */
    int (*pack)(py_linear_making *making, py_linear *linear);
    fovea_linear_part parts[PY_LINEAR_PARTS];
    py_weights weights[PY_LINEAR_PARTS];
};

/* A new map, or NULL with an exception. lists: the arguments that may be lists, the first of which is weight. */
PyObject *py_linear_make(PyTypeObject *type, py_linear_making *making, fovea_activation activation, const char *quant,
                         PyObject **const *lists, int count);

/* Opens bias and heads of matrix i, whose sizes are known; NULL: none. 0, or -1 with an exception. */
int py_weights_bias(py_core *core, py_linear *linear, int64_t i, PyObject *bias, PyObject *heads, py_weights *weights);

/* linear_quantize.c: None or a word of quantization=, with the library's type; *quant is NULL for None.
 * 0, or -1 with an exception. */
int py_quant_of(PyObject *word, const char **quant, fovea_dtype *dtype);

/* The same word as a constant, NULL if it is another; linear_quantized.c: of quantized(). */
const char *py_quant_known(const char *word);
const char *py_kind_known(const char *word);

/* linear_quantized.c: the type of 'fp8' or of a kind of blocks, such as 'gguf:Q4_K'. 0, or -1 with an exception. */
int py_stack_kind(PyObject *word, fovea_dtype *dtype);

enum { PY_SQUARE = 128 }; /* rows and columns of 'fp8' that may share a scale */

/* Checks for torch.float8_e4m3fn, or its bytes. 0, or -1 with TypeError. */
int py_expect_fp8(const py_array *array, const char *name);

/* The matrix that fovea_quantize() made, with its default options; q is for scales of integers. */
fovea_matrix py_quantized_matrix(fovea_dtype dtype, int64_t in, int64_t out, const void *data, const void *scales,
                                 fovea_quantization *q);

/* Quantizes the matrix of floats that part->weight is. 0, or -1 with an exception. */
int py_weights_quantize(py_weights *weights, fovea_dtype dtype, fovea_quantize_stats *error);

/* ----------------------------------------------------------------------------------------------- linear_stored.c -- */

/* A matrix as a tuple, to be stored. NULL with an exception. */
PyObject *py_matrix_store(const fovea_linear *linear, int64_t part, int64_t in, int64_t out, bool biased);

/* The part is read from the bytes; quantization: for that of integers, NULL: there is none. kind: the class, for
 * messages. 0, or -1 with an exception. */
int py_matrix_restore(PyObject *matrix, const char *kind, fovea_quantization *quantization, fovea_linear_part *part);

/* Raises ValueError: what is stored contradicts itself. Returns -1. */
int py_contradicts(const char *kind);

#endif
