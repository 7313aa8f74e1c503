/* Shared by calls of fovea.KVCache: the sequences in use, arguments, errors (kv_cache.h). */
#include "array.h"
#include "kv_cache.h"

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

const py_cache_use *py_cache_uses(py_kv_cache *cache) {
    if (cache->uses && cache->user != getpid())
        cache->uses = NULL;
    return cache->uses;
}

int py_cache_check(py_kv_cache *cache, int64_t count, const int64_t *sequences, bool changes) {
    int64_t which;
    for (const py_cache_use *use = py_cache_uses(cache); use; use = use->next)
        if ((changes || use->changes) && meet(use, count, sequences, &which))
            return py_raise(PyExc_ValueError,
                            "another thread %s sequence %lld: while one changes a sequence, no other may use it",
                            use->changes ? "changes" : "reads", (long long)which);
    return 0;
}

int py_cache_enter(py_kv_cache *cache, py_cache_use *use, int64_t count, const int64_t *sequences, bool changes) {
    if (py_cache_check(cache, count, sequences, changes) < 0)
        return -1;
    *use = (py_cache_use){sequences, count, changes, cache->uses};
    cache->uses = use;
    cache->user = getpid();
    return 0;
}

void py_cache_leave(py_kv_cache *cache, py_cache_use *use) {
    py_cache_use **at = &cache->uses;
    while (*at && *at != use) /* a forked child has forgotten the uses of its parent */
        at = &(*at)->next;
    if (*at)
        *at = use->next;
}

PyObject *py_cache_number(const py_kv_cache *cache, int64_t sequence) {
    PyObject *number = PyLong_FromLongLong(sequence);
    if (number && PySet_Add(cache->numbers, number) < 0)
        Py_CLEAR(number);
    return number;
}

PyObject *py_cache_raise(const py_core *core, fovea_status status) {
    if (status != FOVEA_ERROR_FULL)
        return py_raise_status(status);
    PyErr_SetString(core->cache_full, fovea_error_detail());
    return NULL;
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
