/* fovea.KVCache: how it is made, and what is done to whole sequences (kv_cache.h). */
#include "kv_cache.h"
#include "array.h"
#include "keywords.h"
#include "objects.h"
#include "rope.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static py_kv_cache *cache_of(PyObject *self) { return (py_kv_cache *)self; }

static void dealloc(PyObject *self) {
    py_kv_cache *cache = cache_of(self);
    fovea_kv_cache_destroy(cache->library);
    Py_XDECREF(cache->rope);
    Py_XDECREF(cache->arguments);
    Py_XDECREF(cache->numbers);
    py_context_drop(cache->context);
    py_object_free(self);
}

/* -------------------------------------------------------------------------------------------------------- making -- */

static PyObject *name_of(PyObject *self, void *offset) {
    fovea_dtype dtype;
    memcpy(&dtype, (const char *)self + (size_t)offset, sizeof dtype);
    return PyUnicode_FromString(py_dtype_name(dtype));
}

/* Windows of the layers: one number for all, or a list in which None is none. *windows stays NULL without. */
static int windows_of(PyObject *given, int64_t layers, int64_t **windows) {
    if (given == Py_None)
        return 0;
    const bool one = py_is_integer(given);
    const Py_ssize_t count = one ? layers : PySequence_Size(given);
    if (count < 0)
        return -1;
    if (count != layers)
        return py_raise(PyExc_ValueError, "windows has %zd numbers, not %lld, one for each layer", count,
                        (long long)layers);
    *windows = malloc(((size_t)count + 1) * sizeof **windows);
    if (!*windows) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *item = one ? given : PySequence_GetItem(given, i);
        (*windows)[i] = -1;
        if (item && item != Py_None)
            (void)py_integer(item, "windows", &(*windows)[i]);
        if (!one)
            Py_XDECREF(item);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int create(const py_core *core, py_kv_cache *self, const fovea_kv_cache_desc *desc) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    self->context = py_context_keep(context);
    PyThreadState *released = PyEval_SaveThread();
    const fovea_status status = fovea_kv_cache_create(context->library, desc, &self->library);
    PyEval_RestoreThread(released);
    if (status != FOVEA_OK)
        py_cache_raise(core, status);
    return status == FOVEA_OK ? 0 : -1;
}

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    long long layers, kv_heads, head_dim, value_dim = -1, max_bytes = 0, max_pages = 0;
    PyObject *dtype = Py_None, *k_dtype = Py_None, *v_dtype = Py_None, *window_list = Py_None, *rope = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LLL|$O&OOOO&O&OO:KVCache", py_kvcache_names, &layers, &kv_heads,
                                     &head_dim, py_size_or_none, &value_dim, &dtype, &k_dtype, &v_dtype,
                                     py_size_or_none, &max_bytes, py_size_or_none, &max_pages, &window_list, &rope))
        return py_wrong_arguments("KVCache", keywords);
    const py_core *core = PyType_GetModuleState(type);
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    if (py_cache_dtype(dtype, "dtype", &desc.k_dtype) < 0)
        return NULL;
    desc.v_dtype = desc.k_dtype;
    if (py_cache_dtype(k_dtype, "k_dtype", &desc.k_dtype) < 0 || py_cache_dtype(v_dtype, "v_dtype", &desc.v_dtype) < 0)
        return NULL;
    if (rope != Py_None && Py_TYPE(rope) != core->rope_type) {
        PyErr_SetString(PyExc_TypeError, "rope must be a fovea.Rope");
        return NULL;
    }
    int64_t *windows = NULL;
    py_kv_cache *self = (py_kv_cache *)py_object_new(type);
    if (!self || windows_of(window_list, layers, &windows) < 0) {
        free(windows);
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    if (rope != Py_None) {
        self->rope = Py_NewRef(rope);
        desc.rope = ((const py_rope *)rope)->library;
    }
    desc.layers = self->layers = layers;
    desc.kv_heads = self->kv_heads = kv_heads;
    desc.head_dim = self->head_dim = head_dim;
    desc.value_dim = self->value_dim = value_dim < 0 ? head_dim : value_dim;
    desc.max_bytes = max_bytes;
    desc.max_pages = max_pages;
    desc.windows = windows;
    self->k_dtype = desc.k_dtype;
    self->v_dtype = desc.v_dtype;
    self->arguments = py_arguments(args, keywords);
    self->numbers = PySet_New(NULL);
    const int status = self->arguments && self->numbers ? create(core, self, &desc) : -1;
    free(windows);
    if (status == 0)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- sequences -- */

static PyObject *add(PyObject *self, PyObject *none) {
    (void)none;
    int64_t sequence;
    const fovea_status status = fovea_kv_cache_add(cache_of(self)->library, &sequence);
    return status == FOVEA_OK ? py_cache_number(cache_of(self), sequence) : py_raise_status(status);
}

/* The number that an argument is, of a sequence that this thread may read or change. */
static int one_sequence(PyObject *self, PyObject *argument, bool changes, int64_t *sequence) {
    if (py_integer(argument, "sequence", sequence) < 0)
        return -1;
    return py_cache_check(cache_of(self), 1, sequence, changes);
}

static PyObject *nothing_or_raise(PyObject *self, fovea_status status) {
    if (status != FOVEA_OK)
        return py_cache_raise(py_core_of_object(self), status);
    Py_RETURN_NONE;
}

static PyObject *fork_sequence(PyObject *self, PyObject *argument) {
    int64_t sequence, made;
    if (one_sequence(self, argument, false, &sequence) < 0)
        return NULL;
    const fovea_status status = fovea_kv_cache_fork(cache_of(self)->library, sequence, &made);
    return status == FOVEA_OK ? py_cache_number(cache_of(self), made) : py_raise_status(status);
}

static PyObject *remove_sequence(PyObject *self, PyObject *argument) {
    int64_t sequence;
    if (one_sequence(self, argument, true, &sequence) < 0 || PySet_Discard(cache_of(self)->numbers, argument) < 0)
        return NULL;
    return nothing_or_raise(self, fovea_kv_cache_remove(cache_of(self)->library, sequence));
}

static PyObject *clear(PyObject *self, PyObject *none) {
    (void)none;
    const py_cache_use *use = py_cache_uses(cache_of(self));
    if (use && py_cache_check(cache_of(self), use->count, use->sequences, true) < 0)
        return NULL;
    fovea_kv_cache_clear(cache_of(self)->library);
    if (PySet_Clear(cache_of(self)->numbers) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *length(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long layer = 0;
    int64_t sequence, found;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|L:length", py_kvcache_length_names, &number, &layer) ||
        one_sequence(self, number, false, &sequence) < 0)
        return NULL;
    const fovea_status status = fovea_kv_cache_length(cache_of(self)->library, layer, sequence, &found);
    return status == FOVEA_OK ? PyLong_FromLongLong(found) : py_raise_status(status);
}

static PyObject *cut(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long tokens;
    int64_t sequence;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OL:truncate", py_kvcache_truncate_names, &number, &tokens) ||
        one_sequence(self, number, true, &sequence) < 0)
        return NULL;
    return nothing_or_raise(self, fovea_kv_cache_truncate(cache_of(self)->library, sequence, tokens));
}

static PyObject *evict(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long begin, end;
    int64_t sequence;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OLL:evict", py_kvcache_evict_names, &number, &begin, &end) ||
        one_sequence(self, number, true, &sequence) < 0)
        return NULL;
    return nothing_or_raise(self, fovea_kv_cache_evict(cache_of(self)->library, sequence, begin, end));
}

static PyObject *reserve(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *sequence_list, *token_list, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:reserve", py_kvcache_reserve_names, &sequence_list,
                                     &token_list))
        return NULL;
    py_core *core = py_core_of_object(self);
    py_kv_cache *cache = cache_of(self);
    int64_t *sequences = NULL, *tokens = NULL, count, found;
    py_cache_use use;
    if (py_cache_integers(core, sequence_list, "sequences", -1, &sequences, &count) < 0)
        return NULL;
    if (py_cache_integers(core, token_list, "tokens", count, &tokens, &found) == 0) {
        if (py_cache_enter(cache, &use, count, sequences, true) == 0) {
            PyThreadState *released = PyEval_SaveThread();
            const fovea_status status = fovea_kv_cache_reserve(cache->library, count, sequences, tokens);
            PyEval_RestoreThread(released);
            py_cache_leave(cache, &use);
            result = nothing_or_raise(self, status);
        }
        free(tokens);
    }
    free(sequences);
    return result;
}

/* ---------------------------------------------------------------------------------------------------------- type -- */

#define KEYWORDS(function, doc) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS, doc

static PyMethodDef methods[] = {
    {"__reduce__", py_kv_cache_reduce, METH_NOARGS, NULL},
    {"add", add, METH_NOARGS, py_kvcache_add_doc},
    {"fork", fork_sequence, METH_O, py_kvcache_fork_doc},
    {"remove", remove_sequence, METH_O, py_kvcache_remove_doc},
    {"clear", clear, METH_NOARGS, py_kvcache_clear_doc},
    {"length", KEYWORDS(length, py_kvcache_length_doc)},
    {"reserve", KEYWORDS(reserve, py_kvcache_reserve_doc)},
    {"truncate", KEYWORDS(cut, py_kvcache_truncate_doc)},
    {"evict", KEYWORDS(evict, py_kvcache_evict_doc)},
    {"stats", py_kv_cache_stats, METH_NOARGS, py_kvcache_stats_doc},
    {"append", (PyCFunction)(void (*)(void))py_kv_cache_append, METH_FASTCALL | METH_KEYWORDS, py_kvcache_append_doc},
    {"attend", (PyCFunction)(void (*)(void))py_kv_cache_attend, METH_FASTCALL | METH_KEYWORDS, py_kvcache_attend_doc},
    {"save", KEYWORDS(py_kv_cache_save, py_kvcache_save_doc)},
    {"load", py_kv_cache_load, METH_O, py_kvcache_load_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    PY_INT64_GETTER("layers", py_kv_cache, layers, "layers"),
    PY_INT64_GETTER("kv_heads", py_kv_cache, kv_heads, "heads of keys and values"),
    PY_INT64_GETTER("head_dim", py_kv_cache, head_dim, "channels of keys"),
    PY_INT64_GETTER("value_dim", py_kv_cache, value_dim, "channels of values"),
    {"k_dtype", name_of, NULL, "as which keys are kept", (void *)offsetof(py_kv_cache, k_dtype)},
    {"v_dtype", name_of, NULL, "as which values are kept", (void *)offsetof(py_kv_cache, v_dtype)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_new, (void *)cache_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_kvcache_doc},
                              {Py_tp_repr, (void *)py_kv_cache_repr},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.KVCache", sizeof(py_kv_cache), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

int py_add_kv_cache(PyObject *module) {
    py_core *core = py_core_of(module);
    core->cache_full = PyErr_NewExceptionWithDoc(
        "fovea.CacheFullError", "A fovea.KVCache has too few free pages. Nothing was lost: free pages, and call again.",
        PyExc_MemoryError, NULL);
    if (!core->cache_full || PyModule_AddObjectRef(module, "CacheFullError", core->cache_full) < 0)
        return -1;
    return py_add_type(module, &spec, &core->kv_cache_type);
}
