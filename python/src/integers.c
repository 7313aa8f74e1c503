/* Integers from lists and arrays (array.h: py_integers). */
#include "array.h"

#include <stdlib.h>

/* Element i of an axis of integers of any width. */
static int64_t at(const py_array *array, int64_t i) {
    i *= array->stride[0];
    switch (array->type.code << 8 | array->type.bits) {
    case DL_INT << 8 | 64: return ((const int64_t *)array->data)[i];
    case DL_INT << 8 | 32: return ((const int32_t *)array->data)[i];
    case DL_INT << 8 | 16: return ((const int16_t *)array->data)[i];
    case DL_INT << 8 | 8: return ((const int8_t *)array->data)[i];
    case DL_UINT << 8 | 64: return ((const int64_t *)array->data)[i]; /* from 2^63 on: negative, which is refused */
    case DL_UINT << 8 | 32: return ((const uint32_t *)array->data)[i];
    case DL_UINT << 8 | 16: return ((const uint16_t *)array->data)[i];
    default: return ((const uint8_t *)array->data)[i];
    }
}

static int wrong_count(const char *name, int64_t found, int64_t count) {
    return py_raise(PyExc_ValueError, "%s has %lld numbers, not %lld", name, (long long)found, (long long)count);
}

static int reserve(int64_t count, int64_t **values) {
    *values = malloc(((size_t)count + 1) * sizeof **values);
    if (!*values)
        PyErr_NoMemory();
    return *values ? 0 : -1;
}

static int from_sequence(PyObject *object, const char *name, int64_t count, int64_t **values, int64_t *found) {
    const Py_ssize_t length = PySequence_Size(object);
    if (length < 0)
        return -1;
    *found = length;
    if (count >= 0 && length != count)
        return wrong_count(name, length, count);
    if (reserve(length, values) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        PyObject *number = item ? PyNumber_Index(item) : NULL;
        (*values)[i] = number ? PyLong_AsLongLong(number) : -1;
        Py_XDECREF(item);
        Py_XDECREF(number);
        if (PyErr_Occurred()) {
            if (PyErr_ExceptionMatches(PyExc_TypeError))
                py_raise(PyExc_TypeError, "%s must hold integers", name);
            free(*values);
            return -1;
        }
    }
    return 0;
}

int py_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values, int64_t *found) {
    if (PyList_Check(object) || PyTuple_Check(object))
        return from_sequence(object, name, count, values, found);
    py_array array;
    if (py_array_open(core, object, name, &array) < 0) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            py_raise(PyExc_TypeError, "%s must be a list or an array of integers", name);
        return -1;
    }
    int status = 0;
    if (array.ndim != 1)
        status = py_raise(PyExc_ValueError, "%s must have one dimension, not %d", name, array.ndim);
    else if ((array.type.code != DL_INT && array.type.code != DL_UINT) || array.type.lanes != 1)
        status = py_raise(PyExc_TypeError, "%s must hold integers, not %s", name, py_array_dtype_name(&array));
    else if (count >= 0 && array.shape[0] != count)
        status = wrong_count(name, array.shape[0], count);
    else {
        *found = array.shape[0];
        status = reserve(*found, values);
        for (int64_t i = 0; status == 0 && i < *found; i++)
            (*values)[i] = at(&array, i);
    }
    py_array_close(&array);
    return status;
}
