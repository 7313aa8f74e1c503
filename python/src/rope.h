/* fovea.Rope: rotary position embedding. */
#ifndef PY_ROPE_H
#define PY_ROPE_H

#include "core.h"

typedef struct py_rope {
    PyObject_HEAD fovea_rope *library;
    int64_t rotary_dim;
    PyObject *arguments; /* what it was made of */
} py_rope;

#endif
