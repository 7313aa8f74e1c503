/* Further results of a call besides out, lse and weights: scores of chosen heads, queries and keys; statistics of the
 * weights. */
#include "call.h"

#include <math.h>
#include <string.h>

/* A new C-contiguous output [batch, heads, ...]; without the batch, if q has none. */
static PyObject *make(py_call *call, py_dtype type, int ndim, const int64_t shape[4], py_array **view) {
    const int first = call->layout->ndim == 4 ? 0 : 1;
    *view = &call->arrays[call->array_count];
    PyObject *made = py_array_empty(call->core, call->source, type, ndim - first, shape + first, *view);
    call->array_count += made != NULL;
    return made;
}

static size_t elements(const int64_t shape[4]) {
    return (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2] * (size_t)shape[3];
}

/* first and stop of a pair, or of all. */
static int part(PyObject *value, const char *name, int64_t all, int64_t *first, int64_t *count) {
    *first = 0;
    *count = all;
    if (!value)
        return 0;
    long long stop;
    long long start;
    if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "LL", &start, &stop)) {
        PyErr_Clear();
        return py_raise(PyExc_TypeError, "%s must be a pair (first, stop)", name);
    }
    if (start < 0 || stop < start || stop > all)
        return py_raise(PyExc_ValueError, "%s is (%lld, %lld), which is no part of %lld", name, start, stop,
                        (long long)all);
    *first = start;
    *count = stop - start;
    return 0;
}

static int scores(py_call *call, PyObject *kind) {
    static const char *const kinds[] = {"raw", "capped", "biased", "weights"};
    fovea_attention_scores *scores = &call->scores;
    fovea_attention_scores_init(scores);
    const int found = py_word(kind, "return_scores", NULL, kinds, 4);
    if (found < 0)
        return -1;
    scores->kind = (fovea_score_kind)found;
    PyObject **values = call->values;
    int64_t shape[4] = {call->args.q.shape[0], call->desc.q_heads, 0, 0};
    if (part(values[PY_ARG_score_queries], "score_queries", call->args.q.shape[2], &scores->first_query, &shape[2]) <
            0 ||
        part(values[PY_ARG_score_keys], "score_keys", call->args.k.shape[2], &scores->first_key, &shape[3]) < 0)
        return -1;
    if (values[PY_ARG_score_heads]) {
        int64_t **heads = &call->numbers[call->number_count];
        if (py_integers(call->core, values[PY_ARG_score_heads], "score_heads", -1, heads, &shape[1]) < 0)
            return -1;
        call->number_count++;
        scores->heads = *heads;
    }
    py_array *view;
    if (!(call->made[3] = make(call, PY_F32, 4, shape, &view)))
        return -1;
    static float nowhere; /* an empty tensor of torch has no address */
    float *data = elements(shape) ? view->data : &nowhere;
    scores->out = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, shape[0], shape[1], shape[2], shape[3]);
    const float nothing = scores->kind == FOVEA_SCORES_WEIGHTS ? 0 : -INFINITY;
    for (size_t i = 0, count = call->desc.packed ? elements(shape) : 0; i < count; i++)
        ((float *)view->data)[i] = nothing; /* tokens of no sequence are not written */
    call->args.scores = scores;
    return 0;
}

/* Adds one statistic to the dict. axes: the array's; the last may be absent if it has one element. */
static int statistic(py_call *call, const char *name, py_dtype type, int ndim, const int64_t axes[4],
                     const int64_t shape[4], fovea_tensor *tensor) {
    py_array *view;
    PyObject *made = make(call, type, ndim, axes, &view);
    if (!made)
        return -1;
    const fovea_dtype dtype = type == PY_I64 ? FOVEA_DTYPE_I64 : FOVEA_DTYPE_F32;
    *tensor = fovea_tensor_bhtd(view->data, dtype, shape[0], shape[1], shape[2], shape[3]);
    if (call->desc.packed)
        memset(view->data, type == PY_I64 ? 0xff : 0, elements(shape) * py_dtype_size(type)); /* no keys: -1 */
    made = py_array_finish(call->values[PY_ARG_q], call->source, made);
    const int status = PyDict_SetItemString(call->made[4], name, made);
    Py_DECREF(made);
    return status;
}

static int summary(py_call *call, int64_t top) {
    fovea_attention_summary *summary = &call->summary;
    fovea_attention_summary_init(summary);
    if (!(call->made[4] = PyDict_New()))
        return -1;
    const int64_t batch = call->args.q.shape[0], heads = call->desc.q_heads, queries = call->args.q.shape[2],
                  keys = call->args.k.shape[2];
    const int64_t by_key[4] = {batch, heads, 1, keys}, sums[4] = {batch, heads, keys, 1},
                  rows[4] = {batch, heads, queries, 1}, tops[4] = {batch, heads, queries, top};
    if (statistic(call, "key_sums", PY_F32, 3, sums, by_key, &summary->key_sums) < 0 ||
        statistic(call, "entropy", PY_F32, 3, rows, rows, &summary->entropy) < 0 ||
        statistic(call, "max_weight", PY_F32, 3, rows, rows, &summary->max_weight) < 0)
        return -1;
    if (top > 0 && (statistic(call, "top_keys", PY_I64, 4, tops, tops, &summary->top_keys) < 0 ||
                    statistic(call, "top_weights", PY_F32, 4, tops, tops, &summary->top_weights) < 0))
        return -1;
    call->args.summary = summary;
    if (call->args.lse.data)
        return 0;
    /* key_sums are computed from it. */
    py_array *view;
    if (!(call->own_lse = make(call, PY_F32, 3, rows, &view)))
        return -1;
    call->args.lse = fovea_tensor_bhtd(view->data, FOVEA_DTYPE_F32, batch, heads, queries, 1);
    return 0;
}

int py_call_extra_outputs(py_call *call) {
    PyObject **values = call->values, *want = values[PY_ARG_return_summary], *top_keys = values[PY_ARG_top_keys];
    const bool chosen = values[PY_ARG_score_heads] || values[PY_ARG_score_queries] || values[PY_ARG_score_keys];
    if (chosen && !values[PY_ARG_return_scores])
        return py_raise(PyExc_ValueError, "score_heads, score_queries and score_keys need return_scores");
    if (values[PY_ARG_return_scores] && scores(call, values[PY_ARG_return_scores]) < 0)
        return -1;
    int64_t top = 0;
    const int wants_summary = want ? PyObject_IsTrue(want) : 0;
    if (wants_summary < 0 || (top_keys && py_integer(top_keys, "top_keys", &top) < 0))
        return -1;
    if (top < 0 || (top > 0 && !wants_summary))
        return py_raise(PyExc_ValueError, "top_keys is how many, from 1, and needs return_summary=True");
    return wants_summary ? summary(call, top) : 0;
}
