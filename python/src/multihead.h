/* fovea.MultiHead: a layer with packed weights, and the layers of other shapes that share them. */
#ifndef PY_MULTIHEAD_H
#define PY_MULTIHEAD_H

#include "call.h"
#include "kv_cache.h"
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
    float *norm[2]; /* of q and k, [head_dim], or NULL: what fovea_mha keeps, to be stored */
} py_multihead;

/* Makes the layer from a complete description; keeps what the library does not return. 0, or -1 with an exception. */
int py_multihead_create(py_multihead *self, const fovea_mha_weights *weights);

/* stored.c */
PyObject *py_multihead_reduce(PyObject *self, PyObject *none);
PyObject *py_multihead_from_state(PyObject *type, PyObject *args);

/* The arguments of a call: those of attention(), then these. */
enum { PY_LAYER_cache = PY_ARG_COUNT, PY_LAYER_layer, PY_LAYER_sequences, PY_LAYER_ARGUMENTS };

/* multihead_cache.c: sets what a layer over caches is made for, from cache_dtype=: a type, or a pair of keys' and
 * values'. causal: the option. 0, or -1 with an exception. */
int py_layer_caches(PyObject *types, PyObject *causal, fovea_attention_desc *attention);

/* Opens the cache of a call, after q and lengths: its sequences then belong to the call until py_layer_cache_close().
 * Does nothing if the layer has no cache. 0, or -1 with an exception. */
int py_layer_cache_open(const py_multihead *self, py_call *call, py_cache_use *use);
void py_layer_cache_close(const py_call *call, py_cache_use *use);

PyObject *py_multihead_execute(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

/* Gives a reference back; NULL is allowed. */
void py_layer_drop(py_layer *layer);

#endif
