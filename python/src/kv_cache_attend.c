/* fovea.KVCache.attend(): a call of attention (call.h) whose keys and values are those of the cache (kv_cache.h). */
#include "call.h"
#include "keywords.h"
#include "kv_cache.h"

#include <stdlib.h>
#include <string.h>

/* layer and sequences come before q; all others stand where attention() has them. */
enum { ARG_layer, ARG_sequences, ARG_q };
static const short argument_names[PY_ARG_COUNT] = {
#define PY_ARG_NAME(name) PY_NAME_##name,
    PY_ATTENTION_NAMES(PY_ARG_NAME)
#undef PY_ARG_NAME
};

static int parse(py_core *core, PyObject *const *args, Py_ssize_t count, PyObject *keywords, PyObject **values,
                 PyObject *first[2]) {
    short names[PY_ARG_COUNT];
    memcpy(names, argument_names, sizeof names);
    names[ARG_layer] = PY_NAME_layer;
    names[ARG_sequences] = PY_NAME_sequences;
    names[ARG_q] = PY_NAME_q;
    const py_signature signature = {"attend", names, PY_ARG_COUNT, 3, 3};
    if (py_parse(core, &signature, args, count, keywords, values) < 0)
        return -1;
    first[0] = values[ARG_layer];
    first[1] = values[ARG_sequences];
    values[PY_ARG_q] = values[ARG_q];
    values[PY_ARG_k] = values[PY_ARG_v] = NULL;
    if (values[PY_ARG_kv_starts] || values[PY_ARG_kv_cu_seqlens])
        return py_raise(PyExc_ValueError, "%s is of keys in tensors: sequences of a cache begin at their first page",
                        values[PY_ARG_kv_starts] ? "kv_starts" : "kv_cu_seqlens");
    if (py_plain_bool(values[PY_ARG_causal]) == Py_True)
        return py_raise(
            PyExc_ValueError,
            "causal=True is ambiguous with a cache: say 'bottom_right' (the last query is the last token of its "
            "sequence), or give the position of the first query");
    return 0;
}

/* Whether columns of keys are seen from outside, so that there must be as many as there are keys. */
static bool has_columns(PyObject *const *values) {
    static const int arguments[] = {PY_ARG_mask, PY_ARG_bias, PY_ARG_return_weights, PY_ARG_return_scores,
                                    PY_ARG_return_summary};
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
        if (values[arguments[i]] && values[arguments[i]] != Py_False)
            return true;
    return false;
}

/* Tokens of a call's i-th sequence, none of which the library has checked yet. */
static int64_t tokens_of(const py_call *call, int64_t i) {
    const fovea_attention_args *args = &call->args;
    const int64_t most = call->desc.q_len, tokens = args->q_cu_seqlens
                                                        ? args->q_cu_seqlens[i + 1] - args->q_cu_seqlens[i]
                                                    : args->q_lens ? args->q_lens[i]
                                                                   : most;
    return tokens < 0 ? 0 : tokens < most ? tokens : most;
}

int py_cache_keys(const py_call *call, const py_kv_cache *cache, bool appends, int64_t *keys) {
    const fovea_attention_args *args = &call->args;
    *keys = 0;
    for (int64_t i = 0; i < call->desc.batch; i++) {
        int64_t length;
        if (py_checked(
                fovea_kv_cache_length(cache->base.library, args->cache_layer, args->cache_sequences[i], &length)) < 0)
            return -1;
        length += appends ? tokens_of(call, i) : 0;
        *keys = length > *keys ? length : *keys;
    }
    int64_t rounded = FOVEA_KV_PAGE_KEYS;
    while (rounded < *keys)
        rounded *= 2;
    if (!has_columns(call->values))
        *keys = rounded;
    return 0;
}

/* The counterpart of py_call_tensors() with keys in the cache. */
static int tensors(py_call *call, py_kv_cache *cache, PyObject *const first[2], py_cache_use *use) {
    fovea_attention_desc *desc = &call->desc;
    fovea_attention_args *args = &call->args;
    int64_t count, **sequences = &call->numbers[call->number_count];
    args->cache = cache->base.library;
    if (py_integer(first[0], "layer", &args->cache_layer) < 0 ||
        py_cache_integers(call->core, first[1], "sequences", -1, sequences, &count) < 0)
        return -1;
    call->number_count++;
    args->cache_sequences = *sequences;
    if (py_call_layouts(call) < 0 || py_call_queries(call) < 0 || (desc->packed && py_call_packed_queries(call) < 0))
        return -1;
    if (desc->batch != count)
        return py_raise(PyExc_ValueError, "sequences are %lld, queries are of %lld", (long long)count,
                        (long long)desc->batch);
    desc->page_keys = FOVEA_KV_PAGE_KEYS;
    desc->k_dtype = cache->k_dtype;
    desc->v_dtype = cache->v_dtype;
    desc->kv_heads = cache->kv_heads;
    desc->value_dim = cache->value_dim;
    if (desc->head_dim != cache->head_dim)
        return py_raise(PyExc_ValueError, "q has %lld channels, the cache's keys have %lld", (long long)desc->head_dim,
                        (long long)cache->head_dim);
    if (py_cache_enter(&cache->base, use, count, *sequences, false) < 0)
        return -1;
    if (py_cache_keys(call, cache, false, &desc->kv_len) < 0) {
        py_cache_leave(&cache->base, use);
        return -1;
    }
    args->k.shape[2] = desc->kv_len; /* columns, for what is broadcast and made; k itself stays absent */
    return 0;
}

PyObject *py_kv_cache_attend(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    py_core *core = py_core_of_object(self);
    py_kv_cache *cache = (py_kv_cache *)self;
    PyObject *values[PY_ARG_COUNT], *first[2];
    if (parse(core, args, count, keywords, values, first) < 0)
        return NULL;
    py_call call;
    py_cache_use use;
    py_call_begin(&call, core, values);
    PyObject *result = NULL;
    if (tensors(&call, cache, first, &use) == 0) {
        result = py_call_finish(&call);
        py_cache_leave(&cache->base, &use);
    }
    py_call_end(&call);
    return result;
}
