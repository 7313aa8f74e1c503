/* Tensors, lengths and numbers of a call (call.h). */
#include "call.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const py_layout layouts[] = {{"bhtd", 4, 1, 2}, {"bthd", 4, 2, 1}, {"htd", 3, 0, 1}, {"thd", 3, 1, 0}};

const py_layout *py_layout_or_default(PyObject *name, const char *argument) {
    if (!name)
        return &layouts[0];
    if (PyUnicode_Check(name))
        for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
            if (PyUnicode_CompareWithASCIIString(name, layouts[i].name) == 0)
                return &layouts[i];
    py_raise_not(name, "%s must be 'bhtd' or 'bthd' (packed sequences: also 'htd' or 'thd')", argument);
    return NULL;
}

void py_call_begin(py_call *call, py_core *core, PyObject **values) {
    static fovea_attention_desc desc; /* copied with its padding, as descriptions are compared by bytes */
    if (!desc.struct_size)
        fovea_attention_desc_init(&desc);
    call->core = core;
    call->values = values;
    call->array_count = call->number_count = 0;
    memset(call->made, 0, sizeof call->made);
    call->own_lse = NULL;
    call->desc = desc;
    call->recorded = false;
    call->mask_kind = FOVEA_MASK_NONE;
    fovea_attention_args_init(&call->args);
}

void py_call_end(py_call *call) {
    for (int i = 0; i < call->array_count; i++)
        py_array_close(&call->arrays[i]);
    for (int i = 0; i < call->number_count; i++)
        free(call->numbers[i]);
    for (int i = 0; i < 5; i++)
        Py_XDECREF(call->made[i]);
    Py_XDECREF(call->own_lse);
}

py_array *py_call_open(py_call *call, PyObject *object, const char *name) {
    py_array *array = &call->arrays[call->array_count];
    if (py_array_open(call->core, object, name, array) < 0)
        return NULL;
    call->array_count++;
    if (array->source.torch && !call->recorded && py_array_no_gradient(call->core, object, name, array->source) < 0)
        return NULL;
    return array;
}

int py_call_numbers(py_call *call, int argument, const char *name, int64_t count, const int64_t **numbers) {
    PyObject *object = call->values[argument];
    if (!object)
        return 0;
    int64_t **to = &call->numbers[call->number_count], found;
    if (py_integers(call->core, object, name, count, to, &found) < 0)
        return -1;
    call->number_count++;
    *numbers = *to;
    return 0;
}

int py_layout_view(const py_layout *layout, py_array *array, const char *name, bool input, fovea_tensor *tensor) {
    if (py_array_float(array, name, &tensor->dtype) < 0)
        return -1;
    if (array->ndim != layout->ndim)
        return py_raise(PyExc_ValueError, "%s has %d dimensions, layout '%s' has %d", name, array->ndim, layout->name,
                        layout->ndim);
    if (input && py_array_compact(array) < 0)
        return -1;
    const int batch = layout->ndim == 4 ? 0 : -1, axes[4] = {batch, layout->head, layout->token, layout->ndim - 1};
    tensor->data = array->data;
    for (int i = 0; i < 4; i++) {
        tensor->shape[i] = axes[i] < 0 ? 1 : array->shape[axes[i]];
        tensor->stride[i] = axes[i] < 0 ? 0 : array->stride[axes[i]];
    }
    return 0;
}

int py_call_view(py_call *call, int argument, const char *name, fovea_tensor *tensor) {
    py_array *array = py_call_open(call, call->values[argument], name);
    if (!array || py_layout_view(call->layout, array, name, true, tensor) < 0)
        return -1;
    if (argument == PY_ARG_q) {
        call->source = array->source;
        call->out_type = array->dtype;
    }
    return 0;
}

/* Where packed sequences begin; the longest of them. */
static int packed(py_call *call, int argument, const char *name, const int64_t **numbers, int64_t *longest) {
    PyObject *object = call->values[argument];
    if (!object)
        return py_raise(PyExc_ValueError, "packed sequences need both q_cu_seqlens and kv_cu_seqlens");
    int64_t *values, found;
    if (py_integers(call->core, object, name, -1, &values, &found) < 0)
        return -1;
    call->numbers[call->number_count++] = values;
    if (found < 1)
        return py_raise(PyExc_ValueError, "%s is empty: it has where each sequence begins, and where the last ends",
                        name);
    if (argument == PY_ARG_kv_cu_seqlens && call->desc.batch != found - 1)
        return py_raise(PyExc_ValueError, "q_cu_seqlens is of %lld sequences, kv_cu_seqlens of %lld",
                        (long long)call->desc.batch, (long long)found - 1);
    call->desc.batch = found - 1;
    *longest = 0;
    for (int64_t i = 1; i < found; i++)
        if (values[i] - values[i - 1] > *longest)
            *longest = values[i] - values[i - 1];
    *numbers = values;
    return 0;
}

int py_call_layouts(py_call *call) {
    PyObject **values = call->values;
    call->layout = py_layout_or_default(values[PY_ARG_layout], "layout");
    if (!call->layout)
        return -1;
    call->out_layout =
        values[PY_ARG_out_layout] ? py_layout_or_default(values[PY_ARG_out_layout], "out_layout") : call->layout;
    if (!call->out_layout)
        return -1;
    if (call->out_layout->ndim != call->layout->ndim)
        return py_raise(PyExc_ValueError, "layout '%s' and out_layout '%s' have different numbers of dimensions",
                        call->layout->name, call->out_layout->name);
    call->desc.packed = values[PY_ARG_q_cu_seqlens] || values[PY_ARG_kv_cu_seqlens];
    if (!call->desc.packed && call->layout->ndim == 3)
        return py_raise(PyExc_ValueError, "layout '%s' is that of packed sequences: say by cu_seqlens where they begin",
                        call->layout->name);
    return 0;
}

int py_call_queries(py_call *call) {
    fovea_attention_desc *desc = &call->desc;
    const fovea_tensor *q = &call->args.q;
    if (py_call_view(call, PY_ARG_q, "q", &call->args.q) < 0)
        return -1;
    desc->dtype = q->dtype;
    desc->batch = q->shape[0];
    desc->q_heads = q->shape[1];
    desc->q_len = q->shape[2];
    desc->head_dim = q->shape[3];
    return 0;
}

int py_call_tensors(py_call *call) {
    fovea_attention_desc *desc = &call->desc;
    fovea_attention_args *args = &call->args;
    if (py_call_layouts(call) < 0 || py_call_queries(call) < 0 || py_call_view(call, PY_ARG_k, "k", &args->k) < 0 ||
        py_call_view(call, PY_ARG_v, "v", &args->v) < 0)
        return -1;
    desc->k_dtype = args->k.dtype;
    desc->v_dtype = args->v.dtype;
    desc->kv_heads = args->k.shape[1];
    desc->kv_len = args->k.shape[2];
    desc->value_dim = args->v.shape[3];
    return desc->packed ? py_call_packed(call) : 0;
}

int py_call_packed_queries(py_call *call) {
    return packed(call, PY_ARG_q_cu_seqlens, "q_cu_seqlens", &call->args.q_cu_seqlens, &call->desc.q_len);
}

int py_call_packed(py_call *call) {
    if (py_call_packed_queries(call) < 0)
        return -1;
    return packed(call, PY_ARG_kv_cu_seqlens, "kv_cu_seqlens", &call->args.kv_cu_seqlens, &call->desc.kv_len);
}

int py_call_sequences(py_call *call) {
    static const struct {
        const char *name;
        int argument; /* negative: not read here */
        size_t numbers;
    } lengths[] = {
#define FOVEA_ARGS_LENGTHS(name, more, text) {#name, more ? -1 : PY_ARG_##name, offsetof(fovea_attention_args, name)},
#include "fovea/fields.inc"
    };
    if (call->values[PY_ARG_q_offsets] && call->args.q_offsets)
        return py_raise(PyExc_ValueError, "causal has offsets already: leave q_offsets out");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (lengths[i].argument >= 0 &&
            py_call_numbers(call, lengths[i].argument, lengths[i].name, call->desc.batch,
                            (const int64_t **)((char *)&call->args + lengths[i].numbers)) < 0)
            return -1;
    return 0;
}
