/* The extension's own types: heap types on the limited API, without subclasses. */
#ifndef PY_OBJECTS_H
#define PY_OBJECTS_H

#include "core.h"

#include <stdint.h>

/* Makes a type and puts it into the module under the last part of its name. A reference is kept in *kept. */
int py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept);

/* A new object of a type, all zeros behind its head. */
static inline PyObject *py_object_new(PyTypeObject *type) { return PyType_GenericAlloc(type, 0); }

/* The end of a tp_dealloc. */
void py_object_free(PyObject *object);

/* A converter of PyArg_Parse ("O&") to a long long, which None leaves as it is. */
int py_size_or_none(PyObject *value, void *size);

/* The arguments of a constructor, for py_stored(): (args, keywords), with tuples for lists. NULL with an exception. */
PyObject *py_arguments(PyObject *args, PyObject *keywords);

/* fovea._stored.text() or .reduce() of an object that a type, or its class method maker, makes of arguments. */
PyObject *py_stored(const char *function, const char *kind, const char *maker, PyObject *arguments);

/* The result of __reduce__() for an object that a class method restores from args. Steals args. */
PyObject *py_reduce_to(const char *kind, const char *maker, PyObject *args);

/* Methods of objects that nothing changes: a copy is the object itself. */
PyObject *py_itself(PyObject *self, PyObject *ignored);
#define PY_IMMUTABLE_METHODS                                                                                           \
    {"__copy__", py_itself, METH_NOARGS, NULL}, { "__deepcopy__", py_itself, METH_O, NULL }

/* A getter of an int64_t at the offset that its closure is. */
PyObject *py_get_int64(PyObject *object, void *offset);
#define PY_INT64_GETTER(name, type, field, doc)                                                                        \
    { name, py_get_int64, NULL, doc, (void *)offsetof(type, field) }

#endif
