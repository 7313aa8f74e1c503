/* Numbers, and integers from lists and arrays (array.h). */
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
    case DL_UINT << 8 | 64: return ((const int64_t *)array->data)[i]; /* from 2^63 on: negative */
    case DL_UINT << 8 | 32: return ((const uint32_t *)array->data)[i];
    case DL_UINT << 8 | 16: return ((const uint16_t *)array->data)[i];
    default: return ((const uint8_t *)array->data)[i];
    }
}

/* No list or array with axes. */
static bool is_scalar(PyObject *object) {
    const bool is = PyObject_Size(object) < 0;
    PyErr_Clear();
    return is;
}

bool py_is_integer(PyObject *object) { return PyLong_Check(object) || (PyIndex_Check(object) && is_scalar(object)); }

static int wrong_type(PyObject *object, const char *name, const char *kind) {
    PyObject *type = PyType_GetName(Py_TYPE(object));
    if (type)
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, kind, type);
    Py_XDECREF(type);
    return -1;
}

int py_integer(PyObject *object, const char *name, int64_t *value) {
    PyObject *number = PyNumber_Index(object);
    *value = number ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    if (*value != -1 || !PyErr_Occurred())
        return 0;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        return py_raise(PyExc_OverflowError, "%s does not fit into 64 bits", name);
    return PyErr_ExceptionMatches(PyExc_TypeError) ? wrong_type(object, name, "an integer") : -1;
}

int py_number(PyObject *object, const char *name, double *value) {
    *value = PyFloat_AsDouble(object);
    if (*value != -1 || !PyErr_Occurred())
        return 0;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        return py_raise(PyExc_OverflowError, "%s does not fit into a floating-point number", name);
    return PyErr_ExceptionMatches(PyExc_TypeError) ? wrong_type(object, name, "a number") : -1;
}

PyObject *py_plain_bool(PyObject *object) {
    if (!object || PyLong_Check(object) || PyUnicode_Check(object) || !is_scalar(object))
        return object;
    PyObject *item = PyObject_CallMethod(object, "item", NULL);
    PyErr_Clear();
    Py_XDECREF(item); /* True and False live on */
    return item == Py_True || item == Py_False ? item : object;
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
        const int status = item ? py_integer(item, name, &(*values)[i]) : -1;
        Py_XDECREF(item);
        if (status < 0) {
            if (PyErr_ExceptionMatches(PyExc_TypeError))
                py_raise(PyExc_TypeError, "%s must hold integers", name);
            free(*values);
            *values = NULL;
            return -1;
        }
    }
    return 0;
}

/* Reads the first axis of an open array, which is not closed. */
static int from_array(const py_array *array, const char *name, int64_t count, int64_t **values, int64_t *found) {
    if (array->ndim != 1)
        return py_raise(PyExc_ValueError, "%s must have one dimension, not %d", name, array->ndim);
    if ((array->type.code != DL_INT && array->type.code != DL_UINT) || array->type.lanes != 1)
        return py_raise(PyExc_TypeError, "%s must hold integers, not %s", name, py_array_dtype_name(array));
    *found = array->shape[0];
    if (count >= 0 && *found != count)
        return wrong_count(name, *found, count);
    int status = reserve(*found, values);
    const bool wide = array->type.code == DL_UINT && array->type.bits == 64;
    for (int64_t i = 0; status == 0 && i < *found; i++)
        if (((*values)[i] = at(array, i)) < 0 && wide)
            status = py_raise(PyExc_ValueError, "%s does not fit into 64 bits with a sign", name);
    if (status < 0) {
        free(*values);
        *values = NULL;
    }
    return status;
}

int py_integers_flat(py_array *array, const char *name, int64_t **values, int64_t *found) {
    int64_t all = 1;
    if (py_array_copy(array) < 0)
        return -1;
    for (int i = 0; i < array->ndim; i++)
        all *= array->shape[i];
    array->ndim = 1;
    array->shape[0] = all;
    array->stride[0] = 1;
    return from_array(array, name, -1, values, found);
}

int py_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values, int64_t *found) {
    if (PyList_Check(object) || PyTuple_Check(object))
        return from_sequence(object, name, count, values, found);
    py_array array;
    if (PyBytes_Check(object) || py_array_open(core, object, name, &array) < 0) {
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
            py_raise(PyExc_TypeError, "%s must be a list or an array of integers", name);
        return -1;
    }
    const int status = from_array(&array, name, count, values, found);
    py_array_close(&array);
    return status;
}
