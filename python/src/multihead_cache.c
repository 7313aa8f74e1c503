/* fovea.MultiHead over a fovea.KVCache: what the layer is made for, and the cache of a call (multihead.h). */
#include "multihead.h"

int py_layer_caches(PyObject *types, PyObject *causal, fovea_attention_desc *attention) {
    if (types == Py_None)
        return 0;
    const bool pair = PyTuple_Check(types);
    if (pair && PyTuple_Size(types) != 2)
        return py_raise(PyExc_ValueError, "cache_dtype must be an element type, or a pair: of keys and of values");
    attention->page_keys = FOVEA_KV_PAGE_KEYS;
    if (causal == Py_True) /* the new tokens are the last ones */
        attention->causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    return py_cache_dtype(pair ? PyTuple_GetItem(types, 0) : types, "cache_dtype", &attention->k_dtype) < 0 ||
                   py_cache_dtype(pair ? PyTuple_GetItem(types, 1) : types, "cache_dtype", &attention->v_dtype) < 0
               ? -1
               : 0;
}

/* Checks that the cache has the sizes and types of the layer's keys and values. */
static int check_cache(const py_multihead *self, const py_kv_cache *cache) {
    const fovea_attention_desc *a = &self->attention;
    const struct {
        const char *name;
        int64_t layer, cache;
    } sizes[] = {{"kv_heads", a->kv_heads, cache->kv_heads},
                 {"head_dim", a->head_dim, cache->head_dim},
                 {"value_dim", a->value_dim, cache->value_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].layer != sizes[i].cache)
            return py_raise(PyExc_ValueError, "%s of the layer is %lld, of the cache %lld", sizes[i].name,
                            (long long)sizes[i].layer, (long long)sizes[i].cache);
    if (a->k_dtype != cache->k_dtype || a->v_dtype != cache->v_dtype)
        return py_raise(PyExc_TypeError,
                        "the layer was made for keys of %s and values of %s, the cache keeps %s and %s",
                        py_dtype_name(a->k_dtype), py_dtype_name(a->v_dtype), py_dtype_name(cache->k_dtype),
                        py_dtype_name(cache->v_dtype));
    return 0;
}

/* cache, layer and sequences come together, and only to a layer that was made for them. */
static int check_given(const py_multihead *self, const py_call *call) {
    PyObject *const *values = call->values;
    const bool over = self->attention.page_keys > 0;
    for (int i = PY_LAYER_cache; i < PY_LAYER_ARGUMENTS; i++)
        if (!values[i] == over)
            return py_raise(PyExc_TypeError,
                            over ? "the layer was made with cache_dtype=: give cache, layer and sequences"
                                 : "cache, layer and sequences are for layers made with cache_dtype=");
    if (over &&
        (values[PY_ARG_kv_lens] || values[PY_ARG_q_starts] || values[PY_ARG_kv_starts] || values[PY_ARG_kv_cu_seqlens]))
        return py_raise(PyExc_ValueError, "over a cache, q_lens or q_cu_seqlens alone say which tokens there are");
    if (over && Py_TYPE(values[PY_LAYER_cache]) != call->core->kv_cache_type)
        return py_raise(PyExc_TypeError, "cache must be a fovea.KVCache");
    return over ? check_cache(self, (const py_kv_cache *)values[PY_LAYER_cache]) : 0;
}

int py_layer_cache_open(const py_multihead *self, py_call *call, py_cache_use *use) {
    if (check_given(self, call) < 0)
        return -1;
    if (self->attention.page_keys == 0)
        return 0;
    py_kv_cache *cache = (py_kv_cache *)call->values[PY_LAYER_cache];
    fovea_attention_args *args = &call->args;
    int64_t count, **sequences = &call->numbers[call->number_count];
    args->cache = cache->base.library;
    if (py_integer(call->values[PY_LAYER_layer], "layer", &args->cache_layer) < 0 ||
        py_cache_integers(call->core, call->values[PY_LAYER_sequences], "sequences", -1, sequences, &count) < 0)
        return -1;
    call->number_count++;
    args->cache_sequences = *sequences;
    if (call->desc.batch != count)
        return py_raise(PyExc_ValueError, "sequences are %lld, tokens are of %lld", (long long)count,
                        (long long)call->desc.batch);
    if (py_cache_enter(&cache->base, use, count, *sequences, true) < 0 ||
        py_cache_keys(call, cache, true, &call->desc.kv_len) < 0)
        return -1;
    args->k.shape[2] = call->desc.kv_len; /* columns; k itself stays absent */
    return 0;
}

void py_layer_cache_close(const py_call *call, py_cache_use *use) {
    if (use->sequences)
        py_cache_leave((py_cache *)call->values[PY_LAYER_cache], use);
}
