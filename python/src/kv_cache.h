/* fovea.KVCache: keys and values of sequences, in pages. */
#ifndef PY_KV_CACHE_H
#define PY_KV_CACHE_H

#include "cache.h"
#include "call.h"
#include "context.h"

typedef struct py_kv_cache {
    py_cache base;
    py_context *context; /* kept */
    PyObject *rope;      /* kept, or NULL */
    int64_t layers, kv_heads, head_dim, value_dim;
    fovea_dtype k_dtype, v_dtype;
} py_kv_cache;

/* The most keys of a sequence of a call, including the tokens that it appends. Rounded up if the number of columns is
 * not visible to the caller: a plan or layer is made for a number, and serves all calls until the sequence is twice as
 * long. 0, or -1. */
int py_cache_keys(const py_call *call, const py_kv_cache *cache, bool appends, int64_t *keys);

/* kv_cache_append.c, kv_cache_attend.c: its methods. */
PyObject *py_kv_cache_append(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *py_kv_cache_attend(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

#endif
