/* The extension's state, one for each interpreter, and functions shared by all its files. Everything here runs with the
 * GIL held unless it says otherwise. */
#ifndef PY_CORE_H
#define PY_CORE_H

#include <Python.h>

#include "fovea/fovea.h"
#include "stub.h" /* written by stub.py: PY_ATTENTION_NAMES, docstrings */

#include <stdbool.h>

/* Names that are looked up or compared at each call. Interned once: py_core.names[PY_NAME_q]. The first are the
 * arguments of attention(), in this order (call.h). */
/* clang-format off */
#define PY_NAMES(X) \
    PY_ATTENTION_NAMES(X) PY_OTHER_NAMES(X) \
    X(__dlpack__) X(__dlpack_c_exchange_api__) X(requires_grad) X(is_neg) X(_current_level)
/* clang-format on */

enum {
#define PY_NAME_ENUM(name) PY_NAME_##name,
    PY_NAMES(PY_NAME_ENUM)
#undef PY_NAME_ENUM
        PY_NAME_COUNT
};

/* How the objects of a Python type are read, and how new ones are made. */
typedef enum py_way {
    PY_WAY_NONE,     /* no array */
    PY_WAY_NUMPY,    /* numpy.ndarray and its subclasses: buffer protocol */
    PY_WAY_EXCHANGE, /* type.__dlpack_c_exchange_api__: torch */
    PY_WAY_DLPACK,   /* object.__dlpack__() */
    PY_WAY_BUFFER    /* array.array, memoryview, ... */
} py_way;

typedef struct py_source {
    py_way way;
    int torch;                           /* it is a torch.Tensor */
    const struct DLPackExchangeAPI *api; /* of PY_WAY_EXCHANGE */
    const struct py_torch_pool *symbols; /* of torch, where they were seen to serve for this type, else NULL */
} py_source;

/* Types whose objects have been seen. */
typedef struct py_seen_type {
    PyTypeObject *type; /* a reference, so that no other type gets its address */
    py_source source;
} py_seen_type;
enum { PY_SEEN_TYPES = 16 };

/* The types that the module has. */
#define PY_TYPES(X)                                                                                                    \
    X(mask) X(relative) X(plan) X(config) X(linear) X(experts) X(multihead) X(rope) X(kv_cache) X(state_cache)

typedef struct py_core {
    PyObject *names[PY_NAME_COUNT];
    py_seen_type seen[PY_SEEN_TYPES];
    int seen_count;
    PyObject *numpy_empty;           /* NULL until numpy is needed */
    PyObject *numpy_dtypes[12];      /* by py_dtype */
    PyObject *torch_is_grad_enabled; /* NULL until the first torch.Tensor is seen, as the next */
    PyObject *torch_increment_version;
    PyObject *torch_forward_ad; /* the names of torch.autograd.forward_ad */
#define PY_TYPE_FIELD(name) PyTypeObject *name##_type;
    PY_TYPES(PY_TYPE_FIELD)
#undef PY_TYPE_FIELD
    PyObject *cache_full; /* fovea.CacheFullError */
} py_core;

/* The state of the module that a module function's self is. */
static inline py_core *py_core_of(PyObject *module) { return PyModule_GetState(module); }

/* The state of the module whose type an object has; the type must be one of the extension's own. */
static inline py_core *py_core_of_object(PyObject *object) { return PyType_GetModuleState(Py_TYPE(object)); }

/* How many of a context's threads a call uses now. */
int py_threads_now(const fovea_context_facts *info);

/* Raises what a status means, with the library's sentence: MemoryError, TypeError (element types) or ValueError.
 * Returns NULL. */
PyObject *py_raise_status(fovea_status status);

/* 0, or -1 with py_raise_status(). */
int py_checked(fovea_status status);

#ifdef __MINGW_PRINTF_FORMAT /* which of two on Windows */
#define PY_PRINTF __MINGW_PRINTF_FORMAT
#else
#define PY_PRINTF printf
#endif

/* Raises an exception with a printf-like sentence, for what PyErr_Format cannot print. Returns -1. */
int py_raise(PyObject *type, const char *format, ...) __attribute__((format(PY_PRINTF, 2, 3)));

/* Raises that an argument must be something else: the formatted words, then ", not " and the first line of value's
 * ascii(), cut. ValueError for a word, else TypeError. Returns -1. */
int py_raise_not(PyObject *value, const char *format, ...) __attribute__((format(PY_PRINTF, 2, 3)));

/* How much of an unknown word a sentence repeats: its first ASCII letters. */
int py_word_length(const char *word);

/* The place of a word among count; else -1, and raises that the argument must be one of them, or what `other` names,
 * which is NULL if there is nothing else. */
int py_word(PyObject *value, const char *argument, const char *other, const char *const *words, int count);

/* An attribute of a module, if the module has been imported; else NULL. No exception. */
PyObject *py_attribute_of(const char *module_name, const char *attribute);

/* Module functions, by file, each with its docstring there. */
PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_attention_recorded(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
extern const char py_attention_recorded_doc[];
PyObject *py_merge(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_rms_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_embedding_sum(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_activate(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_pool_tokens(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_normalize_rows(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_exp(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_gated_delta_rule(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_selective_scan(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_causal_conv(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_route(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_info(PyObject *module, PyObject *none);
PyObject *py_models_arithmetic(PyObject *module, PyObject *none);
PyObject *py_renew(PyObject *module, PyObject *none);
PyObject *py_set_num_threads(PyObject *module, PyObject *threads);
PyObject *py_get_num_threads(PyObject *module, PyObject *none);

/* Add types to the module; 0, or -1 with an exception. */
#define PY_ADD(name) int py_add_##name(PyObject *module);
PY_TYPES(PY_ADD)
#undef PY_ADD

#endif
