/* fovea.attention(). */
#include "call.h"
#include "keywords.h"

const char py_attention_doc[] =
    "attention(q, k, v, *, mask=None, bias=None, causal=None, window=None, scale=None, softcap=None, sinks=None,\n"
    "          alibi=None, relative=None, q_lens=None, kv_lens=None, q_starts=None, kv_starts=None, q_offsets=None,\n"
    "          cu_seqlens_q=None, cu_seqlens_kv=None, layout='bhtd', out_layout=None, out=None, return_lse=False,\n"
    "          return_weights=False)\n--\n\n"
    "softmax(scale * q k^T + bias) v in float32.\n";

static const short names[PY_ARG_COUNT] = {PY_NAME_q,
                                          PY_NAME_k,
                                          PY_NAME_v,
                                          PY_NAME_mask,
                                          PY_NAME_bias,
                                          PY_NAME_causal,
                                          PY_NAME_window,
                                          PY_NAME_scale,
                                          PY_NAME_softcap,
                                          PY_NAME_sinks,
                                          PY_NAME_alibi,
                                          PY_NAME_relative,
                                          PY_NAME_q_lens,
                                          PY_NAME_kv_lens,
                                          PY_NAME_q_starts,
                                          PY_NAME_kv_starts,
                                          PY_NAME_q_offsets,
                                          PY_NAME_cu_seqlens_q,
                                          PY_NAME_cu_seqlens_kv,
                                          PY_NAME_layout,
                                          PY_NAME_out_layout,
                                          PY_NAME_out,
                                          PY_NAME_return_lse,
                                          PY_NAME_return_weights};

int py_call_parse(py_core *core, const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                  PyObject **values) {
    const py_signature signature = {function, names, PY_ARG_COUNT, 3, 3};
    return py_parse(core, &signature, args, count, keywords, values);
}

static PyObject *attention(py_core *core, PyObject *const *args, Py_ssize_t count, PyObject *keywords, bool recorded) {
    PyObject *values[PY_ARG_COUNT];
    if (py_call_parse(core, "attention", args, count, keywords, values) < 0)
        return NULL;
    py_call call;
    py_call_begin(&call, core, values);
    call.recorded = recorded;
    PyObject *result = NULL;
    if (py_call_tensors(&call) == 0 && py_call_options(&call) == 0 && py_call_sequences(&call) == 0 &&
        py_call_scores(&call) == 0 && py_call_outputs(&call) == 0) {
        py_context *context = py_context_now();
        py_plan *plan = context ? py_plan_find(context, &call.desc) : NULL;
        if (plan)
            result = py_call_run(&call, plan);
        py_plan_drop(plan);
    }
    py_call_end(&call);
    return result;
}

PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return attention(py_core_of(module), args, count, keywords, false);
}

const char py_attention_recorded_doc[] =
    "attention_recorded(q, k, v, **options)\n--\n\n"
    "attention() for callers that record gradients themselves: tensors may require them.";

PyObject *py_attention_recorded(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return attention(py_core_of(module), args, count, keywords, true);
}
