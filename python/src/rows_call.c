/* Calls of rows (rows_call.h). */
#include "rows_call.h"

#include <stdlib.h>
#include <string.h>

void py_rows_begin(py_rows_call *c, py_core *core) {
    c->core = core;
    c->array_count = c->number_count = 0;
    c->made = NULL;
}

PyObject *py_rows_end(py_rows_call *c, PyObject *like, bool given, int status) {
    const py_source source = c->array_count > 0 ? c->arrays[0].source : (py_source){0};
    for (int i = 0; i < c->array_count; i++)
        py_array_close(&c->arrays[i]);
    for (int i = 0; i < c->number_count; i++)
        free(c->numbers[i]);
    if (status < 0)
        Py_CLEAR(c->made);
    return c->made && !given ? py_array_finish(like, source, c->made) : c->made;
}

PyObject *py_rows_of(PyObject *module, const py_signature *signature, PyObject *const *args, Py_ssize_t count,
                     PyObject *keywords, int out, int (*run)(py_rows_call *call, PyObject **values)) {
    PyObject *values[PY_ROWS_VALUES];
    py_rows_call c;
    py_rows_begin(&c, py_core_of(module));
    if (py_parse(c.core, signature, args, count, keywords, values) < 0)
        return NULL;
    return py_rows_end(&c, values[0], values[out] != NULL, run(&c, values));
}

py_array *py_rows_floats(py_rows_call *c, PyObject *object, const char *name, fovea_dtype *dtype) {
    py_array *array = &c->arrays[c->array_count];
    if (py_array_open(c->core, object, name, array) < 0)
        return NULL;
    c->array_count++;
    if (py_array_float(array, name, dtype) < 0 || py_array_no_gradient(c->core, object, name, array->source) < 0)
        return NULL;
    return array;
}

int py_rows_open(py_rows_call *c, PyObject *object, const char *name, int ndim, const int64_t *shape,
                 fovea_tensor *tensor) {
    fovea_dtype dtype;
    py_array *array = py_rows_floats(c, object, name, &dtype);
    if (!array)
        return -1;
    if (shape && (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0))
        return py_wrong_shape(name, array, ndim, shape);
    if (array->ndim == 0)
        return py_raise(PyExc_ValueError, "%s is one number, not rows", name);
    return py_rows(array, name, dtype, array->shape[array->ndim - 1], true, tensor);
}

py_array *py_rows_vector(py_rows_call *c, PyObject *object, const char *name, int64_t size, fovea_dtype *dtype) {
    py_array *array = &c->arrays[c->array_count];
    if (py_vector_open(c->core, object, name, size, array, dtype) < 0)
        return NULL;
    c->array_count++;
    return py_array_no_gradient(c->core, object, name, array->source) < 0 ? NULL : array;
}

int py_rows_integers(py_rows_call *c, PyObject *object, const char *name, int64_t expected, int64_t *count) {
    if (py_integers(c->core, object, name, expected, &c->numbers[c->number_count], count) < 0)
        return -1;
    c->number_count++;
    return 0;
}

py_array *py_rows_result(py_rows_call *c, PyObject *given, int ndim, const int64_t *shape, fovea_dtype *dtype) {
    const py_array *first = &c->arrays[0];
    py_array *array = &c->arrays[c->array_count];
    if (given) {
        if (py_array_open_out(c->core, given, "out", array) < 0)
            return NULL;
        c->made = Py_NewRef(given);
    } else if (!(c->made = py_array_empty(c->core, first->source, first->dtype, ndim, shape, array)))
        return NULL;
    c->array_count++;
    if (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
        py_wrong_shape("out", array, ndim, shape);
        return NULL;
    }
    return py_array_float(array, "out", dtype) < 0 ? NULL : array;
}

int py_rows_out(py_rows_call *c, PyObject *given, int ndim, const int64_t *shape, fovea_tensor *tensor) {
    fovea_dtype dtype;
    py_array *array = py_rows_result(c, given, ndim, shape, &dtype);
    return array ? py_rows(array, "out", dtype, shape[ndim - 1], false, tensor) : -1;
}

/* Elements from which on other threads of Python may run meanwhile: some 20 us. */
static const int64_t long_call = 1 << 16;

int py_rows_run(int64_t elements, fovea_status (*function)(const fovea_context *ctx, const void *args),
                const void *args) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    py_context_keep(context);
    PyThreadState *released = elements >= long_call ? PyEval_SaveThread() : NULL;
    const fovea_status status = function(context->library, args);
    if (released)
        PyEval_RestoreThread(released);
    py_context_drop(context);
    return py_checked(status);
}
