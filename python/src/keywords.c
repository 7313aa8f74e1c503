/* Arguments by name (keywords.h). */
#include "keywords.h"

#include <string.h>

/* The place of a name among those of the signature, or -1. Names of a call in source code are interned, as ours are. */
static int find(const py_core *core, const py_signature *signature, PyObject *name) {
    for (int i = 0; i < signature->count; i++)
        if (core->names[signature->names[i]] == name)
            return i;
    for (int i = 0; i < signature->count; i++)
        if (PyUnicode_Compare(core->names[signature->names[i]], name) == 0)
            return i;
    return -1;
}

/* The sentence that a function of fovea/_sentences.py returns; NULL with an exception. */
static PyObject *sentence(const char *of, const char *function, PyObject *names) {
    PyObject *module = PyImport_ImportModule("fovea._sentences");
    PyObject *text = module ? PyObject_CallMethod(module, of, "sO", function, names) : NULL;
    Py_XDECREF(module);
    return text;
}

PyObject *py_wrong_arguments(const char *function, PyObject *names) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = names ? sentence("arguments", function, names) : NULL;
    PyErr_Restore(type, value, trace);
    if (text && text != Py_None)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

static int unknown(const py_signature *signature, PyObject *name) {
    PyObject *text = sentence("argument", signature->function, name);
    if (text)
        PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return -1;
}

int py_parse(const py_core *core, const py_signature *signature, PyObject *const *args, Py_ssize_t count,
             PyObject *names, PyObject **values) {
    memset(values, 0, (size_t)signature->count * sizeof *values);
    if (count > signature->positional)
        return py_raise(PyExc_TypeError, "%s() takes %d arguments by position, %zd were given", signature->function,
                        signature->positional, count);
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = args[i];
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        const int at = find(core, signature, name);
        if (at < 0)
            return unknown(signature, name);
        if (values[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got '%U' twice", signature->function, name);
            return -1;
        }
        values[at] = args[count + i];
    }
    for (int i = 0; i < signature->required; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs '%U'", signature->function, core->names[signature->names[i]]);
            return -1;
        }
    for (int i = 0; i < signature->count; i++)
        if (values[i] == Py_None)
            values[i] = NULL;
    for (int i = 0; i < signature->required; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s(): '%U' is None", signature->function, core->names[signature->names[i]]);
            return -1;
        }
    return 0;
}
