/* fovea.KVCache.append() (kv_cache.h). */
#include "call.h"
#include "keywords.h"
#include "kv_cache.h"

#include <stdlib.h>

enum { ARG_layer, ARG_sequences, ARG_k, ARG_v, ARG_lens, ARG_cu_seqlens, ARG_layout, ARG_rotated, ARG_COUNT };

typedef struct run {
    py_core *core;
    PyObject *values[ARG_COUNT];
    fovea_kv_append_args append;
    const py_layout *layout;
    py_array arrays[2];
    int opened;
    int64_t *numbers[3];
    int lists;
} run;

static int numbers(run *r, int argument, const char *name, int64_t count, const int64_t **to, int64_t *found) {
    if (!r->values[argument])
        return 0;
    if (py_cache_integers(r->core, r->values[argument], name, count, &r->numbers[r->lists], found) < 0)
        return -1;
    *to = r->numbers[r->lists++];
    return 0;
}

static int open_tensor(run *r, int argument, const char *name, fovea_tensor *tensor) {
    py_array *array = &r->arrays[r->opened];
    if (py_array_open(r->core, r->values[argument], name, array) < 0)
        return -1;
    r->opened++;
    if (py_layout_view(r->layout, array, name, true, tensor) < 0)
        return -1;
    return py_array_no_gradient(r->core, r->values[argument], name, array->source);
}

static int open_all(run *r) {
    fovea_kv_append_args *append = &r->append;
    int64_t found;
    fovea_kv_append_args_init(append);
    if (py_integer(r->values[ARG_layer], "layer", &append->layer) < 0)
        return -1;
    const int rotated = r->values[ARG_rotated] ? PyObject_IsTrue(r->values[ARG_rotated]) : 0;
    r->layout = py_layout_or_default(r->values[ARG_layout], "layout");
    if (rotated < 0 || !r->layout)
        return -1;
    append->rotated = rotated;
    if (r->layout->ndim == 3 && !r->values[ARG_cu_seqlens])
        return py_raise(PyExc_ValueError, "layout '%s' is that of packed sequences: give cu_seqlens", r->layout->name);
    if (numbers(r, ARG_sequences, "sequences", -1, &append->sequences, &append->count) < 0 ||
        numbers(r, ARG_lens, "lens", append->count, &append->lens, &found) < 0 ||
        numbers(r, ARG_cu_seqlens, "cu_seqlens", append->count + 1, &append->cu_seqlens, &found) < 0)
        return -1;
    return open_tensor(r, ARG_k, "k", &append->k) < 0 || open_tensor(r, ARG_v, "v", &append->v) < 0 ? -1 : 0;
}

/* Elements from which on other threads of Python may run meanwhile: some 20 us. */
static const int64_t long_copy = 1 << 16;

static PyObject *execute(run *r, py_kv_cache *cache) {
    const fovea_tensor *k = &r->append.k;
    py_cache_use use;
    if (py_cache_enter(&cache->base, &use, r->append.count, r->append.sequences, true) < 0)
        return NULL;
    const bool is_long = k->shape[0] * k->shape[1] * k->shape[2] * k->shape[3] >= long_copy;
    PyThreadState *released = is_long ? PyEval_SaveThread() : NULL;
    const fovea_status status = fovea_kv_cache_append(cache->base.library, &r->append);
    if (released)
        PyEval_RestoreThread(released);
    py_cache_leave(&cache->base, &use);
    if (status != FOVEA_OK)
        return py_cache_raise(r->core, status);
    Py_RETURN_NONE;
}

PyObject *py_kv_cache_append(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    run r = {.core = py_core_of_object(self)};
    if (py_parse(r.core, &py_kvcache_append_signature, args, count, keywords, r.values) < 0)
        return NULL;
    PyObject *result = open_all(&r) == 0 ? execute(&r, (py_kv_cache *)self) : NULL;
    for (int i = 0; i < r.opened; i++)
        py_array_close(&r.arrays[i]);
    for (int i = 0; i < r.lists; i++)
        free(r.numbers[i]);
    return result;
}
