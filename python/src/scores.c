/* Arguments that change the scores of a call: mask, bias, numbers of heads, positions (call.h). */
#include "call.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

int py_call_broadcast(const py_call *call, py_array *array, const char *name, fovea_dtype dtype, fovea_tensor *tensor) {
    const int64_t expected[4] = {call->desc.packed ? 1 : call->desc.batch, call->desc.q_heads, call->args.q.shape[2],
                                 call->args.k.shape[2]};
    bool fits = array->ndim <= 4;
    for (int i = 0; fits && i < array->ndim; i++)
        fits = array->shape[i] == 1 || array->shape[i] == expected[4 - array->ndim + i];
    if (!fits) {
        char given[128], scores[128];
        return py_raise(PyExc_ValueError,
                        "%s has the shape %s, which does not broadcast to (batch, heads, queries, keys) = %s", name,
                        py_shape_text(array->ndim, array->shape, given, sizeof given),
                        py_shape_text(4, expected, scores, sizeof scores));
    }
    const int last = array->ndim - 1;
    if (last >= 0 && array->shape[last] > 1 && array->stride[last] > 1 && py_array_compact(array) < 0)
        return -1;
    tensor->data = array->data;
    tensor->dtype = dtype;
    for (int i = 0; i < 4; i++) {
        const int from = i - (4 - array->ndim);
        const bool repeated = from < 0 || array->shape[from] == 1;
        tensor->shape[i] = repeated ? 1 : array->shape[from];
        tensor->stride[i] = repeated ? 0 : array->stride[from];
    }
    if (tensor->shape[3] == 1)
        tensor->stride[3] = expected[3] == 1 ? 1 : 0;
    return 0;
}

static int mask(py_call *call, PyObject *value) {
    if (call->core->mask_type && Py_TYPE(value) == call->core->mask_type)
        return py_call_mask_object(call, value);
    py_array *array = py_call_open(call, value, "mask");
    if (!array)
        return -1;
    if (array->dtype != PY_BOOL)
        return py_raise(PyExc_TypeError,
                        "mask must be bool (True = attend) or a fovea.Mask, not %s: pass numbers to be added as bias=",
                        py_array_dtype_name(array));
    fovea_tensor *tensor = &call->args.mask;
    if (py_call_broadcast(call, array, "mask", FOVEA_DTYPE_BOOL, tensor) < 0)
        return -1;
    const bool keys_alone = tensor->shape[1] == 1 && tensor->shape[2] == 1 && tensor->stride[3] == 1;
    call->desc.mask = keys_alone && call->mask_kind != FOVEA_MASK_BOOLEAN ? FOVEA_MASK_KEY_PADDING : FOVEA_MASK_BOOLEAN;
    return 0;
}

static int bias(py_call *call, PyObject *value) {
    py_array *array = py_call_open(call, value, "bias");
    if (!array || py_array_f32(array, "bias") < 0)
        return -1;
    call->desc.has_bias = 1;
    return py_call_broadcast(call, array, "bias", FOVEA_DTYPE_F32, &call->args.bias);
}

/* Reads the arguments with one number for each query head, from the library's list of fields. */
static int heads(py_call *call) {
    static const struct {
        const char *name;
        int argument;
        size_t numbers, flag; /* in the arguments; in the description */
    } fields[] = {
#define FOVEA_ARGS_HEADS(name, flag, text)                                                                             \
    {#name, PY_ARG_##name, offsetof(fovea_attention_args, name), offsetof(fovea_attention_desc, flag)},
#include "fovea/fields.inc"
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        PyObject *value = call->values[fields[i].argument];
        if (!value)
            continue;
        py_array *array = py_call_open(call, value, fields[i].name);
        if (!array || py_array_f32(array, fields[i].name) < 0)
            return -1;
        if (array->ndim != 1 || array->shape[0] != call->desc.q_heads)
            return py_raise(PyExc_ValueError, "%s must be one number for each of the %lld query heads", fields[i].name,
                            (long long)call->desc.q_heads);
        *(int *)((char *)&call->desc + fields[i].flag) = 1;
        if (py_array_compact(array) < 0)
            return -1;
        *(const float **)((char *)&call->args + fields[i].numbers) = array->data;
    }
    return 0;
}

/* Slopes [heads] or [batch, heads]. */
static int alibi(py_call *call, PyObject *value) {
    py_array *array = py_call_open(call, value, "alibi");
    if (!array || py_array_f32(array, "alibi") < 0)
        return -1;
    const int64_t heads = call->desc.q_heads, batch = call->desc.batch;
    const int head = array->ndim - 1;
    if (head < 0 || head > 1 || array->shape[head] != heads ||
        (head == 1 && array->shape[0] != batch && array->shape[0] != 1))
        return py_raise(PyExc_ValueError,
                        "alibi must be slopes [%lld] or [%lld, %lld]: of each head, or of each sequence and head",
                        (long long)heads, (long long)batch, (long long)heads);
    call->desc.relative = FOVEA_RELATIVE_ALIBI;
    fovea_tensor *tensor = &call->args.relative;
    tensor->data = array->data;
    tensor->dtype = FOVEA_DTYPE_F32;
    tensor->shape[0] = head ? array->shape[0] : 1;
    tensor->shape[1] = heads;
    tensor->shape[2] = tensor->shape[3] = 1;
    tensor->stride[0] = head && array->shape[0] > 1 ? array->stride[0] : 0;
    tensor->stride[1] = array->stride[head];
    tensor->stride[2] = tensor->stride[3] = 1;
    return 0;
}

int py_call_scores(py_call *call) {
    PyObject **values = call->values;
    if ((values[PY_ARG_mask] && mask(call, values[PY_ARG_mask]) < 0) ||
        (values[PY_ARG_bias] && bias(call, values[PY_ARG_bias]) < 0) || heads(call) < 0 ||
        (values[PY_ARG_alibi] && alibi(call, values[PY_ARG_alibi]) < 0))
        return -1;
    if (!values[PY_ARG_relative])
        return 0;
    if (values[PY_ARG_alibi])
        return py_raise(PyExc_ValueError, "alibi and relative cannot be given together");
    return py_call_relative_object(call, values[PY_ARG_relative]);
}
