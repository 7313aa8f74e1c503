/* fovea.attention(). */
#include "call.h"
#include "keywords.h"

static const short names[PY_ARG_COUNT] = {
#define PY_ARG_NAME(name) PY_NAME_##name,
    PY_ATTENTION_NAMES(PY_ARG_NAME)
#undef PY_ARG_NAME
};

int py_call_parse(py_core *core, const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                  PyObject **values) {
    const py_signature signature = {function, names, PY_ARG_COUNT, 3, 3};
    return py_parse(core, &signature, args, count, keywords, values);
}

PyObject *py_call_finish(py_call *call) {
    if (py_call_options(call) < 0 || py_call_sequences(call) < 0 || py_call_scores(call) < 0 ||
        py_call_outputs(call) < 0)
        return NULL;
    py_context *context = py_context_now();
    py_plan *plan = context ? py_plan_find(context, &call->desc) : NULL;
    PyObject *result = plan ? py_call_run(call, plan) : NULL;
    py_plan_drop(plan);
    return result;
}

static PyObject *attention(py_core *core, PyObject *const *args, Py_ssize_t count, PyObject *keywords, bool recorded) {
    PyObject *values[PY_ARG_COUNT];
    if (py_call_parse(core, "attention", args, count, keywords, values) < 0)
        return NULL;
    py_call call;
    py_call_begin(&call, core, values);
    call.recorded = recorded;
    PyObject *result = py_call_tensors(&call) == 0 ? py_call_finish(&call) : NULL;
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
