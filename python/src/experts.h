/* fovea.Experts: what its files share. */
#ifndef PY_EXPERTS_H
#define PY_EXPERTS_H

#include "array.h"
#include "context.h"
#include "linear.h"

typedef struct py_experts {
    PyObject_HEAD fovea_experts *library;
    py_context *context;
    int64_t experts, in_features, out_features, intermediate;
    fovea_dtype dtype, weight_dtype; /* of x and the result; of up */
    fovea_activation activation;
} py_experts;

/* experts_pack.c: its constructor. */
PyObject *py_experts_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

#endif
