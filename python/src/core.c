/* Shared by all files: exceptions, and attributes of imported modules. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyObject *py_raise_status(fovea_status status) {
    PyObject *type = status == FOVEA_ERROR_OUT_OF_MEMORY ? PyExc_MemoryError
                     : status == FOVEA_ERROR_DTYPE       ? PyExc_TypeError
                                                         : PyExc_ValueError;
    PyErr_SetString(type, fovea_error_detail());
    return NULL;
}

int py_checked(fovea_status status) {
    if (status != FOVEA_OK)
        py_raise_status(status);
    return status == FOVEA_OK ? 0 : -1;
}

int py_raise(PyObject *type, const char *format, ...) {
    char text[768];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    PyErr_SetString(type, text);
    return -1;
}

int py_word_length(const char *word) {
    int length = 0;
    while (length < 80 && word[length] >= ' ' && word[length] < 127)
        length++;
    return length;
}

int py_raise_not(PyObject *value, const char *format, ...) {
    char words[640];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    PyObject *repr = PyObject_ASCII(value);
    const char *text = repr ? PyUnicode_AsUTF8AndSize(repr, NULL) : NULL;
    if (!text)
        return -1;
    py_raise(PyUnicode_Check(value) ? PyExc_ValueError : PyExc_TypeError, "%s, not %.*s", words, py_word_length(text),
             text);
    Py_DECREF(repr);
    return -1;
}

int py_word(PyObject *value, const char *argument, const char *other, const char *const *words, int count) {
    char known[512];
    int used = snprintf(known, sizeof known, "%s", other ? other : "");
    for (int i = 0; i < count; i++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, words[i]) == 0)
            return i;
        if (used >= (int)sizeof known)
            continue;
        const char *comma = used == 0 ? "" : i == count - 1 ? " or " : ", ";
        used += snprintf(known + used, sizeof known - (size_t)used, "%s'%s'", comma, words[i]);
    }
    return py_raise_not(value, "%s must be %s", argument, known);
}

PyObject *py_attribute_of(const char *module_name, const char *attribute) {
    PyObject *name = PyUnicode_FromString(module_name);
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *found = module ? PyObject_GetAttrString(module, attribute) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(module);
    PyErr_Clear();
    return found;
}
