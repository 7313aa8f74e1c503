/* Arrays of the caller: numpy (buffer protocol), torch and others with DLPack's C exchange interface, JAX and others
 * with __dlpack__. Read without copying, and made anew in the caller's kind.
 *
 *     py_array x;
 *     if (py_array_open(core, object, "x", &x) < 0)
 *         return NULL;                       an exception is set, nothing needs closing
 *     fovea_tensor t;
 *     if (py_array_f32(&x, "x") < 0 || ...)  checks, each raises
 *     ...
 *     py_array_close(&x);                    when the memory is no longer used, whatever happened
 *
 * The object must live until the array is closed, as function arguments do. Data stays valid until then, with the GIL
 * released, too. Open and close need the GIL. */
#ifndef PY_ARRAY_H
#define PY_ARRAY_H

#include "core.h"
#include "dlpack.h"

#include <stdbool.h>

enum { PY_DIMS = 5 }; /* the most that any argument has */

/* Element types that some argument takes. Another one is PY_OTHER, and its name is in py_array_dtype_name(). */
typedef enum py_dtype {
    PY_OTHER,
    PY_F32,
    PY_F64,
    PY_BF16,
    PY_F16,
    PY_BOOL,
    PY_U8,
    PY_I32,
    PY_I64,
    PY_OTHER_INT
} py_dtype;

typedef struct py_array {
    void *data;
    int ndim;
    py_dtype dtype;
    bool read_only;
    int64_t shape[PY_DIMS], stride[PY_DIMS]; /* in elements; strides of axes of one element are those of the producer */
    py_source source;                        /* of the object's type, for py_array_empty() */
    DLDataType type;                         /* as DLPack writes it, for messages */
    int held;                                /* which of these py_array_close() releases */
    union {
        Py_buffer buffer;
        DLManagedTensorVersioned *versioned;
        DLManagedTensor *unversioned;
        PyObject *object;
    } holder;
    void *copy; /* memory of py_array_compact(), or NULL */
} py_array;

/* Opens an array for reading. name is the argument's, for messages. 0, or -1 with TypeError or ValueError: no array,
 * more than PY_DIMS dimensions, not on a CPU, negative strides. For a torch tensor with the negative bit the array is a
 * copy of the resolved numbers. */
int py_array_open(py_core *core, PyObject *object, const char *name, py_array *array);

/* Opens an array that is about to be written to. -1, too, with ValueError: read-only, a tensor of torch with the
 * negative bit or with a gradient that would be wrong. */
int py_array_open_out(py_core *core, PyObject *object, const char *name, py_array *array);

/* Releases what py_array_open() holds, and copies. The array may be zeros. */
void py_array_close(py_array *array);

/* 0, or -1 with ValueError if it is a tensor of torch whose gradient would be lost. */
int py_array_no_gradient(py_core *core, PyObject *object, const char *name, py_source source);

/* Bytes of an element of a type that an argument may have. */
size_t py_dtype_size(py_dtype dtype);

/* 0 if the elements are of that type, or bytes of quantized weights of it; else -1 with TypeError. */
int py_array_of(const py_array *array, const char *name, fovea_dtype dtype);

/* py_array_of() float32. */
int py_array_f32(const py_array *array, const char *name);

/* The library's name of a type that q, k, v and out may have: float32, bfloat16 or float16. 0, or -1 with TypeError. */
int py_array_float(const py_array *array, const char *name, fovea_dtype *dtype);

/* The same, and if `integers` also those of weights and caches: int8. */
int py_array_number(const py_array *array, const char *name, bool integers, fovea_dtype *dtype);

/* "float32", "int8" ... */
const char *py_dtype_name(fovea_dtype dtype);

/* Is it a type that has such a name? Do scales belong to it, of integers? */
bool py_dtype_known(int dtype);
bool py_dtype_scaled(fovea_dtype dtype);

/* Is it one of weights of integers or blocks? */
bool py_dtype_quantized(fovea_dtype dtype);

/* The block size of a type in weights, and the bytes of `elements` weights, a multiple of it. */
int64_t py_weight_block(fovea_dtype dtype);
int64_t py_weight_bytes(fovea_dtype dtype, int64_t elements);

/* The type that a word names: a float as argument dtype, or any of a cache. None and NULL leave *dtype as it is. 0, or
 * -1 with ValueError or TypeError. */
int py_float_of(PyObject *word, fovea_dtype *dtype);
int py_cache_dtype(PyObject *word, const char *argument, fovea_dtype *dtype);

/* The same type as that of arrays. */
py_dtype py_float_dtype(fovea_dtype dtype);

/* "float16", "int8", ...; valid until the next call. */
const char *py_array_dtype_name(const py_array *array);

/* Replaces the view by a compact copy (C order), if the last axis has a stride other than 1. 0, or -1 with
 * MemoryError. */
int py_array_compact(py_array *array);

/* Replaces the view by a compact copy whatever its strides. 0, or -1 with MemoryError. */
int py_array_copy(py_array *array);

/* Makes an array of uninitialized memory in C order: torch if source is torch's, numpy if it is numpy's or not known to
 * make any. view is what py_array_open() would give. A new reference, or NULL with an exception. */
PyObject *py_array_empty(py_core *core, py_source source, py_dtype dtype, int ndim, const int64_t *shape,
                         py_array *view);

/* Fills an array that py_array_empty() made: with zeros, or one of float32 with a number. */
void py_array_fill(const py_array *array, float value);

/* Turns an array made by py_array_empty() into the caller's kind: the array itself, or, if `like` is of JAX or another
 * producer that can import it, theirs over the same memory. Steals the reference to made. Cannot fail. */
PyObject *py_array_finish(PyObject *like, py_source source, PyObject *made);

/* Reads one integer, of Python or numpy. 0, or -1 with TypeError (no integer) or OverflowError (beyond 64 bits). */
int py_integer(PyObject *object, const char *name, int64_t *value);

/* Likewise a floating-point number. */
int py_number(PyObject *object, const char *name, double *value);

/* Whether it is an integer, and no list or array of some. */
bool py_is_integer(PyObject *object);

/* Python's True or False for one boolean of numpy or torch; any other object as it is. Borrowed, as given. */
PyObject *py_plain_bool(PyObject *object);

/* Reads integers: a list or tuple of ints, or an array [count] of integers of any width. count -1: any number. *values
 * is from malloc, for the caller to free; *found is how many. 0, or -1 with an exception. */
int py_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values, int64_t *found);

/* The same of an open array of any number of axes, in C order; its view changes. */
int py_integers_flat(py_array *array, const char *name, int64_t **values, int64_t *found);

/* Frees what the state holds of types seen (module's end). */
void py_array_forget(py_core *core);

/* "(2, 1, 3)", as Python writes it. Returns text. */
const char *py_shape_text(int ndim, const int64_t *shape, char *text, size_t size);

#endif
