/* One call of a function that makes rows of rows: what it has opened, and what it gives. A step that fails returns -1,
 * or NULL, with an exception. */
#ifndef PY_ROWS_CALL_H
#define PY_ROWS_CALL_H

#include "array.h"
#include "context.h"
#include "keywords.h"
#include "linear.h"

enum { PY_ROWS_NUMBERS = 16, PY_ROWS_ARRAYS = PY_ROWS_NUMBERS + 1 };

typedef struct py_rows_call {
    py_core *core;
    py_array arrays[PY_ROWS_ARRAYS];
    int64_t *numbers[PY_ROWS_NUMBERS];
    int array_count, number_count;
    PyObject *made; /* the result, a reference, or NULL */
} py_rows_call;

void py_rows_begin(py_rows_call *call, py_core *core);

/* Ends a call with what it returns: the result, of the kind of like; or NULL with an exception, if status is -1. given:
 * the caller's out. */
PyObject *py_rows_end(py_rows_call *call, PyObject *like, bool given, int status);

/* All of a call whose arguments begin with x and have out at a place: parses, runs, ends. */
enum { PY_ROWS_VALUES = 8 };
PyObject *py_rows_of(PyObject *module, const py_signature *signature, PyObject *const *args, Py_ssize_t count,
                     PyObject *keywords, int out, int (*run)(py_rows_call *call, PyObject **values));

/* An input of floats, as it was given. */
py_array *py_rows_floats(py_rows_call *call, PyObject *object, const char *name, fovea_dtype *dtype);

/* An input of rows, whose shape is checked if one is expected. */
int py_rows_open(py_rows_call *call, PyObject *object, const char *name, int ndim, const int64_t *shape,
                 fovea_tensor *tensor);

/* The next array is `size` numbers of floats, contiguous. */
py_array *py_rows_vector(py_rows_call *call, PyObject *object, const char *name, int64_t size, fovea_dtype *dtype);

/* Integers: the next of numbers. */
int py_rows_integers(py_rows_call *call, PyObject *object, const char *name, int64_t expected, int64_t *count);

/* The output, given, or made of the kind and type of the first array: as an array, and as rows. */
py_array *py_rows_result(py_rows_call *call, PyObject *given, int ndim, const int64_t *shape, fovea_dtype *dtype);
int py_rows_out(py_rows_call *call, PyObject *given, int ndim, const int64_t *shape, fovea_tensor *tensor);

/* Calls the library; with many elements, other threads of Python run meanwhile. 0, or -1 with an exception. */
int py_rows_run(int64_t elements, fovea_status (*function)(const fovea_context *ctx, const void *args),
                const void *args);

#endif
