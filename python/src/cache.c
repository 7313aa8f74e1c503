/* Caches: the sequences in use, arguments, errors, and methods of single sequences (cache.h). */
#include "cache.h"
#include "array.h"
#include "keywords.h"
#include "objects.h"

#include <unistd.h>

static bool meet(const py_cache_use *use, int64_t count, const int64_t *sequences, int64_t *which) {
    for (int64_t i = 0; i < use->count; i++)
        for (int64_t j = 0; j < count; j++)
            if (use->sequences[i] == sequences[j]) {
                *which = sequences[j];
                return true;
            }
    return false;
}

const py_cache_use *py_cache_uses(py_cache *cache) {
    if (cache->uses && cache->user != getpid())
        cache->uses = NULL;
    return cache->uses;
}

int py_cache_check(py_cache *cache, int64_t count, const int64_t *sequences, bool changes) {
    int64_t which;
    for (const py_cache_use *use = py_cache_uses(cache); use; use = use->next)
        if ((changes || use->changes) && meet(use, count, sequences, &which))
            return py_raise(PyExc_ValueError,
                            "another thread %s sequence %lld: while one changes a sequence, no other may use it",
                            use->changes ? "changes" : "reads", (long long)which);
    return 0;
}

int py_cache_enter(py_cache *cache, py_cache_use *use, int64_t count, const int64_t *sequences, bool changes) {
    if (py_cache_check(cache, count, sequences, changes) < 0)
        return -1;
    *use = (py_cache_use){sequences, count, changes, cache->uses};
    cache->uses = use;
    cache->user = getpid();
    return 0;
}

void py_cache_leave(py_cache *cache, py_cache_use *use) {
    py_cache_use **at = &cache->uses;
    while (*at && *at != use) /* a forked child has forgotten the uses of its parent */
        at = &(*at)->next;
    if (*at)
        *at = use->next;
}

int py_cache_sequence(PyObject *self, PyObject *argument, bool changes, int64_t *sequence) {
    if (py_integer(argument, "sequence", sequence) < 0)
        return -1;
    return py_cache_check((py_cache *)self, 1, sequence, changes);
}

PyObject *py_cache_raise(const py_core *core, fovea_status status) {
    if (status != FOVEA_ERROR_FULL)
        return py_raise_status(status);
    PyErr_SetString(core->cache_full, fovea_error_detail());
    return NULL;
}

PyObject *py_cache_done(PyObject *self, fovea_status status) {
    if (status != FOVEA_OK)
        return py_cache_raise(py_core_of_object(self), status);
    Py_RETURN_NONE;
}

PyObject *py_cache_number(const py_cache *cache, fovea_status status, int64_t sequence) {
    if (status != FOVEA_OK)
        return py_cache_raise(py_core_of_object((PyObject *)cache), status);
    PyObject *number = PyLong_FromLongLong(sequence);
    if (number && PySet_Add(cache->numbers, number) < 0)
        Py_CLEAR(number);
    return number;
}

int py_cache_integers(py_core *core, PyObject *object, const char *name, int64_t count, int64_t **values,
                      int64_t *found) {
    if (!py_is_integer(object))
        return py_integers(core, object, name, count, values, found);
    PyObject *list = PyTuple_Pack(1, object);
    const int status = list ? py_integers(core, list, name, count, values, found) : -1;
    Py_XDECREF(list);
    return status;
}

int py_cache_begin(py_cache *cache, const py_cache_calls *calls, PyObject *args, PyObject *keywords) {
    cache->calls = calls;
    cache->arguments = py_arguments(args, keywords);
    cache->numbers = PySet_New(NULL);
    return cache->arguments && cache->numbers ? 0 : -1;
}

void py_cache_free(py_cache *cache) {
    Py_XDECREF(cache->arguments);
    Py_XDECREF(cache->numbers);
    py_object_free((PyObject *)cache);
}

/* ------------------------------------------------------------------------------------------------------- methods -- */

static const py_cache *cache_of(PyObject *self) { return (const py_cache *)self; }

PyObject *py_cache_add(PyObject *self, PyObject *none) {
    (void)none;
    int64_t sequence;
    const fovea_status status = cache_of(self)->calls->add(cache_of(self)->library, &sequence);
    return py_cache_number(cache_of(self), status, sequence);
}

PyObject *py_cache_fork(PyObject *self, PyObject *argument) {
    int64_t sequence, made;
    if (py_cache_sequence(self, argument, false, &sequence) < 0)
        return NULL;
    const fovea_status status = cache_of(self)->calls->fork(cache_of(self)->library, sequence, &made);
    return py_cache_number(cache_of(self), status, made);
}

PyObject *py_cache_remove(PyObject *self, PyObject *argument) {
    int64_t sequence;
    if (py_cache_sequence(self, argument, true, &sequence) < 0)
        return NULL;
    PyObject *number = PyLong_FromLongLong(sequence); /* another kind of number has another hash */
    const int dropped = number ? PySet_Discard(cache_of(self)->numbers, number) : -1;
    Py_XDECREF(number);
    if (dropped < 0)
        return NULL;
    return py_cache_done(self, cache_of(self)->calls->remove(cache_of(self)->library, sequence));
}

PyObject *py_cache_length(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long part = 0;
    int64_t sequence, found;
    const py_cache_calls *calls = cache_of(self)->calls;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|L:length", calls->length_names, &number, &part) ||
        py_cache_sequence(self, number, false, &sequence) < 0)
        return NULL;
    const fovea_status status = calls->length(cache_of(self)->library, part, sequence, &found);
    return status == FOVEA_OK ? PyLong_FromLongLong(found) : py_raise_status(status);
}

PyObject *py_cache_truncate(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long tokens;
    int64_t sequence;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OL:truncate", py_kvcache_truncate_names, &number, &tokens) ||
        py_cache_sequence(self, number, true, &sequence) < 0)
        return NULL;
    return py_cache_done(self, cache_of(self)->calls->truncate(cache_of(self)->library, sequence, tokens));
}
