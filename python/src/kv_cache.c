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
    fovea_kv_cache_destroy(cache->base.library);
    Py_XDECREF(cache->rope);
    py_context_drop(cache->context);
    py_cache_free(&cache->base);
}

PY_CACHE_CALLS(kv_cache, py_kvcache_length_names, "reduce_cache")

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
    fovea_kv_cache *library = NULL;
    const fovea_status status = fovea_kv_cache_create(context->library, desc, &library);
    PyEval_RestoreThread(released);
    self->base.library = library;
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
    const int status = py_cache_begin(&self->base, &calls, args, keywords) < 0 ? -1 : create(core, self, &desc);
    free(windows);
    if (status == 0)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- sequences -- */

static PyObject *clear(PyObject *self, PyObject *none) {
    (void)none;
    const py_cache_use *use = py_cache_uses(&cache_of(self)->base);
    if (use && py_cache_check(&cache_of(self)->base, use->count, use->sequences, true) < 0)
        return NULL;
    fovea_kv_cache_clear(cache_of(self)->base.library);
    if (PySet_Clear(cache_of(self)->base.numbers) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *evict(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number;
    long long begin, end;
    int64_t sequence;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OLL:evict", py_kvcache_evict_names, &number, &begin, &end) ||
        py_cache_sequence(self, number, true, &sequence) < 0)
        return NULL;
    return py_cache_done(self, fovea_kv_cache_evict(cache_of(self)->base.library, sequence, begin, end));
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
        if (py_cache_enter(&cache->base, &use, count, sequences, true) == 0) {
            PyThreadState *released = PyEval_SaveThread();
            const fovea_status status = fovea_kv_cache_reserve(cache->base.library, count, sequences, tokens);
            PyEval_RestoreThread(released);
            py_cache_leave(&cache->base, &use);
            result = py_cache_done(self, status);
        }
        free(tokens);
    }
    free(sequences);
    return result;
}

static PyObject *stats(PyObject *self, PyObject *none) {
    (void)none;
#define NUMBER(name)                                                                                                   \
    { #name, offsetof(fovea_kv_stats, name) }
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {NUMBER(page_bytes),   NUMBER(token_bytes),   NUMBER(max_pages),       NUMBER(used_pages),
                   NUMBER(shared_pages), NUMBER(sequences),     NUMBER(appended_tokens), NUMBER(copied_pages),
                   NUMBER(window_pages), NUMBER(evicted_pages), NUMBER(peak_pages)};
#undef NUMBER
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    if (py_checked(fovea_kv_cache_stats(cache_of(self)->base.library, &stats)) < 0)
        return NULL;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof numbers / sizeof numbers[0]; i++) {
        PyObject *value = py_get_int64((PyObject *)&stats, (void *)numbers[i].offset);
        if (!value || PyDict_SetItemString(dict, numbers[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *describe(PyObject *self) {
    const py_kv_cache *cache = (const py_kv_cache *)self;
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    (void)fovea_kv_cache_stats(cache->base.library, &stats);
    return PyUnicode_FromFormat("<fovea.KVCache %lld layers, %lld heads of %lld and %lld channels, %s and %s, %lld "
                                "sequences, %lld of %lld pages>",
                                (long long)cache->layers, (long long)cache->kv_heads, (long long)cache->head_dim,
                                (long long)cache->value_dim, py_dtype_name(cache->k_dtype),
                                py_dtype_name(cache->v_dtype), (long long)stats.sequences, (long long)stats.used_pages,
                                (long long)stats.max_pages);
}

/* ---------------------------------------------------------------------------------------------------------- type -- */

static PyMethodDef methods[] = {
    PY_CACHE_METHODS(kvcache),
    {"clear", clear, METH_NOARGS, py_kvcache_clear_doc},
    {"reserve", PY_KEYWORDS(reserve, py_kvcache_reserve_doc)},
    {"evict", PY_KEYWORDS(evict, py_kvcache_evict_doc)},
    {"stats", stats, METH_NOARGS, py_kvcache_stats_doc},
    {"append", (PyCFunction)(void (*)(void))py_kv_cache_append, METH_FASTCALL | METH_KEYWORDS, py_kvcache_append_doc},
    {"attend", (PyCFunction)(void (*)(void))py_kv_cache_attend, METH_FASTCALL | METH_KEYWORDS, py_kvcache_attend_doc},
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
                              {Py_tp_repr, (void *)describe},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.KVCache", sizeof(py_kv_cache), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

int py_add_kv_cache(PyObject *module) {
    py_core *core = py_core_of(module);
    core->cache_full = PyErr_NewExceptionWithDoc(
        "fovea.CacheFullError",
        "A cache has too few free pages, or places of sequences. Nothing was lost: free some, and call again.",
        PyExc_MemoryError, NULL);
    if (!core->cache_full || PyModule_AddObjectRef(module, "CacheFullError", core->cache_full) < 0)
        return -1;
    return py_add_type(module, &spec, &core->kv_cache_type);
}
