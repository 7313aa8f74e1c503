/* Caches of sequences, which are numbers: what fovea.KVCache and fovea.StateCache have in common.
 *
 * The library lets one thread change a sequence while no other uses it. Python threads that would break this get
 * ValueError: calls that release the GIL record the sequences in use, and all calls check that record first. */
#ifndef PY_CACHE_H
#define PY_CACHE_H

#include "core.h"

#include <sys/types.h>

/* Sequences that a call uses without the GIL. */
typedef struct py_cache_use {
    const int64_t *sequences;
    int64_t count;
    bool changes;
    struct py_cache_use *next;
} py_cache_use;

/* The library's functions of a kind of cache. */
typedef struct py_cache_calls {
    fovea_status (*add)(void *cache, int64_t *sequence);
    fovea_status (*fork)(void *cache, int64_t sequence, int64_t *fork);
    fovea_status (*remove)(void *cache, int64_t sequence);
    fovea_status (*length)(void *cache, int64_t part, int64_t sequence, int64_t *length);
    fovea_status (*truncate)(void *cache, int64_t sequence, int64_t length);
    fovea_status (*save)(void *cache, int64_t sequence, void *data, size_t size, size_t *needed);
    fovea_status (*load)(void *cache, const void *data, size_t size, int64_t *sequence);
    char **length_names; /* of the arguments of length() */
    const char *reduce;  /* the function of fovea._stored */
} py_cache_calls;

/* calls, of the library's functions fovea_<kind>_... */
/* clang-format off */
#define PY_CACHE_CALLS(kind, length_names, reduce) \
    static fovea_status add(void *c, int64_t *made) { return fovea_##kind##_add(c, made); } \
    static fovea_status fork_of(void *c, int64_t from, int64_t *made) { return fovea_##kind##_fork(c, from, made); } \
    static fovea_status remove_from(void *c, int64_t sequence) { return fovea_##kind##_remove(c, sequence); } \
    static fovea_status length(void *c, int64_t part, int64_t sequence, int64_t *tokens) { \
        return fovea_##kind##_length(c, part, sequence, tokens); \
    } \
    static fovea_status cut(void *c, int64_t sequence, int64_t tokens) { \
        return fovea_##kind##_truncate(c, sequence, tokens); \
    } \
    static fovea_status save(void *c, int64_t sequence, void *data, size_t size, size_t *needed) { \
        return fovea_##kind##_save(c, sequence, data, size, needed); \
    } \
    static fovea_status load(void *c, const void *data, size_t size, int64_t *made) { \
        return fovea_##kind##_load(c, data, size, made); \
    } \
    static const py_cache_calls calls = {add, fork_of, remove_from, length, cut, save, load, length_names, reduce};
/* clang-format on */

/* The beginning of each cache. */
typedef struct py_cache {
    PyObject_HEAD void *library;
    const py_cache_calls *calls;
    PyObject *arguments; /* what it was made of */
    PyObject *numbers;   /* a set: of its sequences */
    py_cache_use *uses;  /* by other threads, now: see py_cache_uses() */
    pid_t user;          /* the process of these threads */
} py_cache;

/* Keeps what a new cache is made of. 0, or -1 with an exception. */
int py_cache_begin(py_cache *cache, const py_cache_calls *calls, PyObject *args, PyObject *keywords);

/* The end of a tp_dealloc, when the library's cache is gone. */
void py_cache_free(py_cache *cache);

/* The uses there are: those of the parent's threads, of which a forked child has not even the stacks, are forgotten. */
const py_cache_use *py_cache_uses(py_cache *cache);

/* 0, or -1 with ValueError: another thread changes one of these sequences, or uses one that is to be changed. */
int py_cache_check(py_cache *cache, int64_t count, const int64_t *sequences, bool changes);

/* Checks, and says that they are used until py_cache_leave(). The use and the numbers stay where they are till then. */
int py_cache_enter(py_cache *cache, py_cache_use *use, int64_t count, const int64_t *sequences, bool changes);
void py_cache_leave(py_cache *cache, py_cache_use *use);

/* The number that an argument is, of a sequence that this thread may read or change. */
int py_cache_sequence(PyObject *self, PyObject *argument, bool changes, int64_t *sequence);

/* As py_raise_status(); CacheFullError where the cache is full. */
PyObject *py_cache_raise(const py_core *core, fovea_status status);

/* None, or py_cache_raise(). */
PyObject *py_cache_done(PyObject *self, fovea_status status);

/* The new sequence, or py_cache_raise(). */
PyObject *py_cache_number(const py_cache *cache, fovea_status status, int64_t sequence);

/* An int, or a list or array of ints, as py_integers() gives them. */
int py_cache_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values,
                      int64_t *found);

/* Methods of all kinds: cache.c, cache_save.c. */
PyObject *py_cache_add(PyObject *self, PyObject *none);
PyObject *py_cache_fork(PyObject *self, PyObject *sequence);
PyObject *py_cache_remove(PyObject *self, PyObject *sequence);
PyObject *py_cache_length(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_cache_truncate(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_cache_save(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_cache_load(PyObject *self, PyObject *source);
PyObject *py_cache_reduce(PyObject *self, PyObject *none); /* also for copies */

#define PY_KEYWORDS(function, doc) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS, doc
#define PY_CACHE_METHODS(kind)                                                                                         \
    {"__reduce__", py_cache_reduce, METH_NOARGS, NULL}, {"add", py_cache_add, METH_NOARGS, py_##kind##_add_doc},       \
        {"fork", py_cache_fork, METH_O, py_##kind##_fork_doc},                                                         \
        {"remove", py_cache_remove, METH_O, py_##kind##_remove_doc},                                                   \
        {"length", PY_KEYWORDS(py_cache_length, py_##kind##_length_doc)},                                              \
        {"truncate", PY_KEYWORDS(py_cache_truncate, py_##kind##_truncate_doc)},                                        \
        {"save", PY_KEYWORDS(py_cache_save, py_##kind##_save_doc)}, {                                                  \
        "load", py_cache_load, METH_O, py_##kind##_load_doc                                                            \
    }

#endif
