/* Types and objects (objects.h). */
#include "objects.h"

#include <string.h>

int py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type)
        return -1;
    *kept = (PyTypeObject *)type;
    return PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type);
}

void py_object_free(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

int py_size_or_none(PyObject *value, void *size) {
    if (value == Py_None)
        return 1;
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return 0;
    if (number < 0) {
        py_raise(PyExc_ValueError, "a size is %lld, but none may be negative", number);
        return 0;
    }
    *(long long *)size = number;
    return 1;
}

PyObject *py_arguments(PyObject *args, PyObject *keywords) {
    PyObject *dict = PyDict_New(), *name, *value;
    for (Py_ssize_t at = 0; dict && keywords && PyDict_Next(keywords, &at, &name, &value);) {
        PyObject *kept = PyList_Check(value) ? PySequence_Tuple(value) : Py_NewRef(value);
        if (!kept || PyDict_SetItem(dict, name, kept) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(kept);
    }
    PyObject *arguments = dict ? PyTuple_Pack(2, args, dict) : NULL;
    Py_XDECREF(dict);
    return arguments;
}

PyObject *py_stored(const char *function, const char *kind, const char *maker, PyObject *arguments) {
    PyObject *module = PyImport_ImportModule("fovea._stored");
    PyObject *args = PyTuple_GetItem(arguments, 0), *keywords = PyTuple_GetItem(arguments, 1);
    PyObject *result = module ? PyObject_CallMethod(module, function, "szOO", kind, maker, args, keywords) : NULL;
    Py_XDECREF(module);
    return result;
}

PyObject *py_reduce_to(const char *kind, const char *maker, PyObject *args) {
    PyObject *arguments = args ? py_arguments(args, NULL) : NULL;
    PyObject *result = arguments ? py_stored("reduce", kind, maker, arguments) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(arguments);
    return result;
}

PyObject *py_itself(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

PyObject *py_get_int64(PyObject *object, void *offset) {
    int64_t value;
    memcpy(&value, (const char *)object + (size_t)offset, sizeof value);
    return PyLong_FromLongLong(value);
}
