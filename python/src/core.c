/* What the library's statuses are in Python. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>

PyObject *py_raise_status(fovea_status status) {
    PyObject *type = status == FOVEA_ERROR_OUT_OF_MEMORY ? PyExc_MemoryError
                     : status == FOVEA_ERROR_DTYPE       ? PyExc_TypeError
                                                         : PyExc_ValueError;
    PyErr_SetString(type, fovea_error_detail());
    return NULL;
}

int py_raise(PyObject *type, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    PyErr_SetString(type, text);
    return -1;
}
