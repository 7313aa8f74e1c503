/* fovea.StateCache: states of linear recurrences (cache.h). */
#include "array.h"
#include "keywords.h"
#include "kv_cache.h"
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>

typedef struct py_state_cache {
    py_cache base;
    int64_t states, max_sequences, slots;
} py_state_cache;

PY_CACHE_CALLS(state_cache, py_statecache_length_names, "reduce_states")

static py_state_cache *cache_of(PyObject *self) { return (py_state_cache *)self; }

static void dealloc(PyObject *self) {
    fovea_state_cache_destroy(cache_of(self)->base.library);
    py_cache_free(&cache_of(self)->base);
}

/* The arguments that a pickle keeps: a caller's list may change. */
static PyObject *positional(const int64_t *sizes, int64_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (int64_t i = 0; tuple && i < count; i++) {
        PyObject *size = PyLong_FromLongLong(sizes[i]);
        if (!size || PyTuple_SetItem(tuple, i, size) < 0)
            Py_CLEAR(tuple);
    }
    PyObject *all = tuple ? PyTuple_Pack(1, tuple) : NULL;
    Py_XDECREF(tuple);
    return all;
}

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *floats;
    long long max_sequences = -1, slots = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$LL:StateCache", py_statecache_names, &floats, &max_sequences,
                                     &slots))
        return py_wrong_arguments("StateCache", keywords);
    if (max_sequences < 0) {
        py_raise(PyExc_TypeError, "StateCache() needs max_sequences=, from 1 on");
        return NULL;
    }
    fovea_state_cache_desc desc;
    fovea_state_cache_desc_init(&desc);
    int64_t *sizes = NULL;
    if (py_integers(PyType_GetModuleState(type), floats, "floats", -1, &sizes, &desc.states) < 0)
        return NULL;
    desc.floats = sizes;
    desc.max_sequences = max_sequences;
    desc.slots = slots;
    py_state_cache *self = (py_state_cache *)py_object_new(type);
    PyObject *kept = self && PyTuple_Size(args) > 0 ? positional(sizes, desc.states) : Py_NewRef(args);
    int status = self && kept ? py_cache_begin(&self->base, &calls, kept, keywords) : -1;
    Py_XDECREF(kept);
    if (status == 0) {
        fovea_state_cache *library;
        status = py_checked(fovea_state_cache_create(&desc, &library));
        self->base.library = library;
        self->states = desc.states;
        self->max_sequences = max_sequences;
        self->slots = slots;
    }
    free(sizes);
    if (status < 0 && self) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *check(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *number, *keys = Py_None, *key_number = Py_None;
    int64_t sequence, key_sequence = -1, layers = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:check", py_statecache_check_names, &number, &keys,
                                     &key_number) ||
        py_cache_sequence(self, number, false, &sequence) < 0)
        return NULL;
    if ((keys == Py_None) != (key_number == Py_None)) {
        py_raise(PyExc_TypeError, "keys and key_sequence come together");
        return NULL;
    }
    if (keys != Py_None) {
        if (Py_TYPE(keys) != py_core_of_object(self)->kv_cache_type) {
            py_raise(PyExc_TypeError, "keys must be a fovea.KVCache");
            return NULL;
        }
        if (py_cache_sequence(keys, key_number, false, &key_sequence) < 0)
            return NULL;
        layers = ((const py_kv_cache *)keys)->layers;
    }
    return py_cache_done(self, fovea_state_cache_agrees(cache_of(self)->base.library, sequence,
                                                        layers > 0 ? ((py_cache *)keys)->library : NULL, layers,
                                                        key_sequence));
}

static PyObject *describe(PyObject *self) {
    const py_state_cache *cache = cache_of(self);
    return PyUnicode_FromFormat("<fovea.StateCache %lld states, %zd of %lld sequences, the last %lld of each>",
                                (long long)cache->states, PySet_Size(cache->base.numbers),
                                (long long)cache->max_sequences, (long long)cache->slots);
}

static PyMethodDef methods[] = {
    PY_CACHE_METHODS(statecache),
    {"check", PY_KEYWORDS(check, py_statecache_check_doc)},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    PY_INT64_GETTER("states", py_state_cache, states, "states of a sequence"),
    PY_INT64_GETTER("max_sequences", py_state_cache, max_sequences, "the most sequences"),
    PY_INT64_GETTER("slots", py_state_cache, slots, "how many tokens' states are kept"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots_of_type[] = {{Py_tp_new, (void *)cache_new},
                                      {Py_tp_dealloc, (void *)dealloc},
                                      {Py_tp_methods, methods},
                                      {Py_tp_getset, getters},
                                      {Py_tp_doc, (void *)py_statecache_doc},
                                      {Py_tp_repr, (void *)describe},
                                      {0, NULL}};

static PyType_Spec spec = {"fovea.StateCache", sizeof(py_state_cache), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots_of_type};

int py_add_state_cache(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->state_cache_type); }
