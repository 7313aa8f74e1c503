/* fovea.KVCache: keys and values of sequences, in pages.
 *
 * The library lets one thread change a sequence while no other uses it. Python threads that would break this get
 * ValueError: calls that release the GIL record the sequences in use, and all calls check that record first. */
#ifndef PY_KV_CACHE_H
#define PY_KV_CACHE_H

#include "call.h"
#include "context.h"

#include <stdbool.h>
#include <sys/types.h>

/* Sequences that a call uses without the GIL. */
typedef struct py_cache_use {
    const int64_t *sequences;
    int64_t count;
    bool changes;
    struct py_cache_use *next;
} py_cache_use;

typedef struct py_kv_cache {
    PyObject_HEAD fovea_kv_cache *library;
    py_context *context; /* kept */
    PyObject *rope;      /* kept, or NULL */
    PyObject *arguments; /* what it was made of */
    PyObject *numbers;   /* a set: of its sequences */
    py_cache_use *uses;  /* by other threads, now: see py_cache_uses() */
    pid_t user;          /* the process of these threads */
    int64_t layers, kv_heads, head_dim, value_dim;
    fovea_dtype k_dtype, v_dtype;
} py_kv_cache;

/* The uses there are: those of the parent's threads, of which a forked child has not even the stacks, are forgotten. */
const py_cache_use *py_cache_uses(py_kv_cache *cache);

/* 0, or -1 with ValueError: another thread changes one of these sequences, or uses one that is to be changed. */
int py_cache_check(py_kv_cache *cache, int64_t count, const int64_t *sequences, bool changes);

/* Checks, and says that they are used until py_cache_leave(). The use and the numbers stay where they are till then. */
int py_cache_enter(py_kv_cache *cache, py_cache_use *use, int64_t count, const int64_t *sequences, bool changes);
void py_cache_leave(py_kv_cache *cache, py_cache_use *use);

/* The number of a sequence that is there now. A new reference, or NULL with an exception. */
PyObject *py_cache_number(const py_kv_cache *cache, int64_t sequence);

/* As py_raise_status(); CacheFullError where the cache is full. */
PyObject *py_cache_raise(const py_core *core, fovea_status status);

/* An int, or a list or array of ints, as py_integers() gives them. */
int py_cache_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values,
                      int64_t *found);

/* The most keys of a sequence of a call, including the tokens that it appends. Rounded up if the number of columns is
 * not visible to the caller: a plan or layer is made for a number, and serves all calls until the sequence is twice as
 * long. 0, or -1. */
int py_cache_keys(const py_call *call, const py_kv_cache *cache, bool appends, int64_t *keys);

/* kv_cache_append.c, kv_cache_attend.c, kv_cache_save.c: its methods. */
PyObject *py_kv_cache_append(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *py_kv_cache_attend(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *py_kv_cache_save(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_kv_cache_load(PyObject *self, PyObject *source);
PyObject *py_kv_cache_stats(PyObject *self, PyObject *none);
PyObject *py_kv_cache_repr(PyObject *self);
PyObject *py_kv_cache_reduce(PyObject *self, PyObject *none); /* also for copies */

#endif
