/* Arrays of rows, and lists of arrays: what fovea.Linear and fovea.MultiHead share. */
#ifndef PY_LINEAR_H
#define PY_LINEAR_H

#include "array.h"
#include "context.h"

/* Opens a matrix of weights [out, in], or [in, out] if in_first, of any strides; integers: it may be of them. *array
 * must be closed if and only if this returns 0. 0, or -1 with an exception. */
int py_matrix_open(py_core *core, PyObject *object, const char *name, bool in_first, bool integers, py_array *array,
                   fovea_matrix *matrix);

/* Opens a vector of size numbers, contiguous (a copy where it was not). As py_matrix_open(). */
int py_vector_open(py_core *core, PyObject *object, const char *name, int64_t size, py_array *array,
                   fovea_dtype *dtype);

/* "out_in" or "in_out". 0, or -1 with ValueError. */
int py_matrix_layout(const char *name, bool *in_first);

/* The library's view of an array of a type: of rows [..., features], or of heads [batch, heads, tokens, channels] with
 * heads * channels = features. Input that has no such view is copied. 0, or -1 with ValueError. */
int py_rows(py_array *array, const char *name, fovea_dtype dtype, int64_t features, bool input, fovea_tensor *tensor);

/* Opens an output that the caller gave. 0 with *object a new reference, or -1 with an exception and the array
 * closed. */
int py_given(py_core *core, PyObject *given, const char *name, fovea_dtype dtype, int ndim, const int64_t *shape,
             py_array *array);

/* Raises ValueError: the shape is not the expected one. */
int py_wrong_shape(const char *name, const py_array *array, int ndim, const int64_t *shape);

/* Multiplications from which on other threads of Python may run meanwhile: some 20 us. */
static const double py_long_work = 1e6;

/* -------------------------------------------------------------------------------------------------- fovea.Linear -- */

enum { PY_LINEAR_PARTS = 16 };

typedef struct py_linear {
    PyObject_HEAD fovea_linear *library;
    py_context *context; /* kept */
    size_t workspace_size;
    fovea_dtype dtype, weight_dtype; /* of x, y and residual; of the packed weights */
    fovea_activation activation;
    fovea_arithmetic arithmetic; /* as asked for */
    int64_t in_features, count;  /* count: of results */
    int64_t matrices;            /* count; 2 of a gated map */
    int several;                 /* lists were given, and are returned */
    const char *quant;           /* what quantized weights are of, a word; NULL: nothing was said */
    bool has_zeros;
    int64_t group_size; /* of integers with separate scales; 0: a scale for each output channel */
    fovea_dtype scale_dtype;
    fovea_quantize_stats error[PY_LINEAR_PARTS]; /* of quantization=; struct_size is 0 if nothing was quantized */
    char biased[PY_LINEAR_PARTS];
    int64_t out[PY_LINEAR_PARTS], heads[PY_LINEAR_PARTS]; /* heads: 0: rows */
} py_linear;

/* How many matrices weight is, a list or one. 0, or -1 with an exception. */
int py_linear_lists(py_linear *linear, PyObject *weight);

/* Replaces a list by a tuple, a new reference that is also put into *held: other threads may change the list while the
 * GIL is released. 0, or -1 with an exception. */
int py_hold_list(PyObject **value, PyObject **held);

/* linear NULL, or a map of one part: the value itself. Else item i of a list that has an item for each part:
 * borrowed, NULL for None. 0, or -1 with an exception: it is a list of another length. */
int py_linear_item(const py_linear *linear, PyObject *value, const char *name, int64_t i, PyObject **to);

/* None or a word. 0, or -1 with an exception. */
int py_activation_of(PyObject *word, fovea_activation *activation);

/* A number below count. 0, or -1 with an exception. */
int py_linear_part_of(PyObject *number, int64_t count, int64_t *part);

/* Packs count parts by what the object says of types, activation and arithmetic. 0, or -1 with an exception. */
int py_linear_pack(py_linear *linear, const fovea_linear_part *parts);

/* Does it take two matrices, a gate and what it gates? */
bool py_activation_gates(fovea_activation activation);

/* The word of an activation, or NULL for none. */
const char *py_activation_name(fovea_activation activation);

/* linear_pack.c: its constructor. */
PyObject *py_linear_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

/* linear_quantized.c: its class method quantized(). */
PyObject *py_linear_quantized(PyObject *type, PyObject *args, PyObject *keywords);

/* linear_stored.c: its methods that give weights back. */
PyObject *py_linear_unpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_linear_reduce(PyObject *self, PyObject *none);
PyObject *py_linear_from_state(PyObject *type, PyObject *args);

/* linear_call.c: its methods apply() and __call__(). */
PyObject *py_linear_apply(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *py_linear_call(PyObject *self, PyObject *args, PyObject *keywords);

#endif
