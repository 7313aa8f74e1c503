/* Outputs and execution of a call (call.h). */
#include "call.h"

#include <math.h>
#include <string.h>

/* An output [batch, head, token, channel], as an array of a layout. Without a layout: as given, without the last axis
 * if it is of one element, and without the batch if q has none. */
static PyObject *make(py_call *call, const py_layout *layout, py_dtype type, const int64_t shape[4], bool channels,
                      fovea_tensor *tensor) {
    int64_t sizes[4];
    int axes[4] = {0, 1, 2, 3}, ndim = 0;
    const bool batch = call->layout->ndim == 4;
    if (layout && layout->token < layout->head) {
        axes[1] = 2;
        axes[2] = 1;
    }
    for (int i = batch ? 0 : 1; i < (channels ? 4 : 3); i++)
        sizes[ndim++] = shape[axes[i]];
    py_array *array = &call->arrays[call->array_count];
    PyObject *object = py_array_empty(call->core, call->source, type, ndim, sizes, array);
    if (!object)
        return NULL;
    call->array_count++;
    if (py_array_float(array, "out", &tensor->dtype) < 0) {
        Py_DECREF(object);
        return NULL;
    }
    tensor->data = array->data;
    tensor->stride[3] = 1;
    tensor->stride[0] = 0;
    for (int i = batch ? 0 : 1; i < 4; i++) {
        tensor->shape[i] = shape[i];
        if (i < 3 || channels)
            tensor->stride[axes[i]] = array->stride[batch ? i : i - 1];
    }
    tensor->shape[0] = shape[0];
    return object;
}

/* The caller's out. */
static PyObject *given(py_call *call, fovea_tensor *tensor) {
    PyObject *object = call->values[PY_ARG_out];
    py_array *array = &call->arrays[call->array_count];
    if (py_array_open_out(call->core, object, "out", array) < 0)
        return NULL;
    call->array_count++;
    if (py_layout_view(call->out_layout, array, "out", false, tensor) < 0)
        return NULL;
    return Py_NewRef(object);
}

static int asked(PyObject *value) {
    return !value || value == Py_False ? 0 : value == Py_True ? 1 : PyObject_IsTrue(value);
}

/* The library does not write tokens of no sequence, nor weights of other sequences' keys: in memory that was just
 * allocated they must be set. Arrays that the caller gave stay as they are. */
static void fill_packed(py_call *call, int first) {
    const int64_t *starts = call->args.q_cu_seqlens;
    const bool gaps = starts[0] != 0 || starts[call->desc.batch] != call->args.q.shape[2];
    if (gaps && !call->values[PY_ARG_out])
        py_array_fill(&call->arrays[first], 0);
    if (call->made[1] && gaps)
        py_array_fill(&call->arrays[first + 1], -INFINITY);
    if (call->made[2])
        py_array_fill(&call->arrays[first + 1 + (call->made[1] != NULL)], 0);
}

int py_call_outputs(py_call *call) {
    const int64_t rows[4] = {call->args.q.shape[0], call->args.q.shape[1], call->args.q.shape[2], call->desc.value_dim};
    const int64_t numbers[4] = {rows[0], rows[1], rows[2], 1};
    const int64_t scores[4] = {rows[0], rows[1], rows[2], call->args.k.shape[2]};
    const int lse = asked(call->values[PY_ARG_return_lse]), weights = asked(call->values[PY_ARG_return_weights]);
    if (lse < 0 || weights < 0)
        return -1;
    const int first = call->array_count;
    PyObject **made = call->made;
    made[0] = call->values[PY_ARG_out] ? given(call, &call->args.out)
                                       : make(call, call->out_layout, call->out_type, rows, true, &call->args.out);
    if (!made[0] || (lse && !(made[1] = make(call, NULL, PY_F32, numbers, false, &call->args.lse))) ||
        (weights && !(made[2] = make(call, NULL, PY_F32, scores, true, &call->args.weights))))
        return -1;
    call->desc.out_dtype = call->args.out.dtype;
    if (call->desc.packed)
        fill_packed(call, first);
    const bool extra = call->values[PY_ARG_return_scores] || call->values[PY_ARG_score_heads] ||
                       call->values[PY_ARG_score_queries] || call->values[PY_ARG_score_keys] ||
                       call->values[PY_ARG_return_summary] || call->values[PY_ARG_top_keys];
    return extra ? py_call_extra_outputs(call) : 0;
}

/* Multiplications from which on others may run meanwhile: some 20 us. */
static const double long_work = 1e6;

static int execute(py_call *call, const py_plan *plan) {
    const fovea_attention_desc *desc = &call->desc;
    const double work = (double)call->args.q.shape[0] * (double)desc->q_heads * (double)call->args.q.shape[2] *
                        (double)desc->kv_len * (double)(desc->head_dim + desc->value_dim);
    PyThreadState *released = work >= long_work ? PyEval_SaveThread() : NULL;
    void *workspace = py_workspace(plan->workspace_size);
    const fovea_status status =
        fovea_attention_execute(plan->library, &call->args, workspace, workspace ? plan->workspace_size : 0);
    py_workspace_done(workspace, plan->workspace_size);
    if (released)
        PyEval_RestoreThread(released);
    return py_checked(status);
}

PyObject *py_call_run(py_call *call, const py_plan *plan) {
    if (execute(call, plan) < 0)
        return NULL;
    int count = 0, last = 0;
    for (int i = 0; i < 5; i++) {
        if (!call->made[i])
            continue;
        if (i < 4 && (i > 0 || !call->values[PY_ARG_out]))
            call->made[i] = py_array_finish(call->values[PY_ARG_q], call->source, call->made[i]);
        count++;
        last = i;
    }
    PyObject *result = count == 1 ? call->made[last] : PyTuple_New(count);
    for (int i = 0, at = 0; result && count > 1 && i < 5; i++)
        if (call->made[i])
            PyTuple_SetItem(result, at++, call->made[i]);
    if (result) /* it has the references */
        memset(call->made, 0, sizeof call->made);
    return result;
}
