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

PyObject *py_get_int64(PyObject *object, void *offset) {
    int64_t value;
    memcpy(&value, (const char *)object + (size_t)offset, sizeof value);
    return PyLong_FromLongLong(value);
}
