/* fovea.MultiHead: a layer with packed weights, and the layers of other shapes that share them. */
#ifndef PY_MULTIHEAD_H
#define PY_MULTIHEAD_H

#include "call.h"
#include "linear.h"

/* A layer of one shape; calls hold references while the GIL is released. */
typedef struct py_layer {
    fovea_mha *library;
    int64_t batch, q_len, kv_len;
    size_t workspace_size;
    long references;
} py_layer;

enum { PY_LAYERS = 16 };

typedef struct py_multihead {
    PyObject_HEAD py_context *context; /* kept */
    fovea_mha_desc desc;
    fovea_attention_desc attention;
    py_layer *layers[PY_LAYERS]; /* in order of their last use; the first ever is never lost: others are made from it */
    fovea_mha *first;
} py_multihead;

PyObject *py_multihead_execute(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

/* Gives a reference back; NULL is allowed. */
void py_layer_drop(py_layer *layer);

#endif
