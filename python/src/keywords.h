/* Arguments of functions that are called often: METH_FASTCALL, names compared by address. */
#ifndef PY_KEYWORDS_H
#define PY_KEYWORDS_H

#include "core.h"

typedef struct py_signature {
    const char *function;     /* for messages */
    const short *names;       /* PY_NAME_..., in the order of values */
    int count;                /* of names */
    int positional, required; /* how many may be given by position; how many, of the first, must be given */
} py_signature;

/* Puts the arguments of a call where their names say; values that are not given, or None, are NULL; all are borrowed.
 * 0, or -1 with TypeError. */
int py_parse(const py_core *core, const py_signature *signature, PyObject *const *args, Py_ssize_t count,
             PyObject *names, PyObject **values);

/* If a call used an argument of another library, replaces the exception of PyArg_ParseTupleAndKeywords() by one that
 * says so. Returns NULL. */
PyObject *py_wrong_arguments(const char *function, PyObject *names);

#endif
