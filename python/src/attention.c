/* fovea.attention(). */
#include "call.h"
#include "keywords.h"

#include <stdlib.h>
#include <string.h>

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

static const py_signature signature = {"attention", names, PY_ARG_COUNT, 3, 3};

/* Outputs of a call: references. */
typedef struct outputs {
    PyObject *out, *lse, *weights;
} outputs;

/* An output [batch, head, token, channel], as an array of a layout. Without a layout: as given, without the last axis if it
 * is of one element, and without the batch if q has none. */
static PyObject *make(py_call *call, const py_layout *layout, const int64_t shape[4], bool channels,
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
    PyObject *object = py_array_empty(call->core, call->source, PY_F32, ndim, sizes, array);
    if (!object)
        return NULL;
    call->array_count++;
    tensor->data = array->data;
    tensor->dtype = FOVEA_DTYPE_F32;
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
    py_array *array = py_call_open(call, object, "out");
    if (!array || py_array_f32(array, "out") < 0)
        return NULL;
    if (array->read_only) {
        py_raise(PyExc_ValueError, "out is read-only");
        return NULL;
    }
    const py_layout *layout = call->out_layout;
    if (array->ndim != layout->ndim) {
        py_raise(PyExc_ValueError, "out has %d dimensions, layout '%s' has %d", array->ndim, layout->name,
                 layout->ndim);
        return NULL;
    }
    const int axes[4] = {layout->ndim == 4 ? 0 : -1, layout->head, layout->token, layout->ndim - 1};
    tensor->data = array->data;
    tensor->dtype = FOVEA_DTYPE_F32;
    for (int i = 0; i < 4; i++) {
        tensor->shape[i] = axes[i] < 0 ? 1 : array->shape[axes[i]];
        tensor->stride[i] = axes[i] < 0 ? 0 : array->stride[axes[i]];
    }
    Py_INCREF(object);
    return object;
}

static int asked(PyObject *value) {
    return !value || value == Py_False ? 0 : value == Py_True ? 1 : PyObject_IsTrue(value);
}

static int make_outputs(py_call *call, outputs *made) {
    const int64_t rows[4] = {call->args.q.shape[0], call->args.q.shape[1], call->args.q.shape[2], call->desc.value_dim};
    const int64_t numbers[4] = {rows[0], rows[1], rows[2], 1};
    const int64_t scores[4] = {rows[0], rows[1], rows[2], call->args.k.shape[2]};
    const int lse = asked(call->values[PY_ARG_return_lse]), weights = asked(call->values[PY_ARG_return_weights]);
    if (lse < 0 || weights < 0)
        return -1;
    made->out = call->values[PY_ARG_out] ? given(call, &call->args.out)
                                         : make(call, call->out_layout, rows, true, &call->args.out);
    if (!made->out || (lse && !(made->lse = make(call, NULL, numbers, false, &call->args.lse))) ||
        (weights && !(made->weights = make(call, NULL, scores, true, &call->args.weights))))
        return -1;
    return 0;
}

/* Multiplications from which on others may run meanwhile: some 20 us. */
static const double long_work = 1e6;

static int execute(py_call *call) {
    py_context *context = py_context_now();
    py_plan *plan = context ? py_plan_find(context, &call->desc) : NULL;
    if (!plan)
        return -1;
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
    py_plan_drop(plan);
    if (status != FOVEA_OK)
        py_raise_status(status);
    return status == FOVEA_OK ? 0 : -1;
}

/* out, or (out, lse, weights) of what was asked for. Takes the references. */
static PyObject *result(py_call *call, outputs *made) {
    PyObject *parts[3];
    int count = 0;
    PyObject *all[3] = {made->out, made->lse, made->weights};
    memset(made, 0, sizeof *made);
    bool whole = true;
    for (int i = 0; i < 3; i++)
        if (all[i]) {
            PyObject *part =
                i == 0 && call->values[PY_ARG_out] ? all[i] : py_array_finish(call->core, call->source, all[i]);
            whole = whole && part;
            parts[count++] = part;
        }
    if (whole && count == 1)
        return parts[0];
    PyObject *tuple = whole ? PyTuple_New(count) : NULL;
    for (int i = 0; i < count; i++)
        if (tuple)
            PyTuple_SetItem(tuple, i, parts[i]);
        else
            Py_XDECREF(parts[i]);
    return tuple;
}

PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    py_core *core = py_core_of(module);
    PyObject *values[PY_ARG_COUNT];
    if (py_parse(core, &signature, args, count, keywords, values) < 0)
        return NULL;
    py_call call;
    outputs made = {NULL, NULL, NULL};
    py_call_begin(&call, core, values);
    const int status = py_call_tensors(&call) < 0 || py_call_options(&call) < 0 || py_call_sequences(&call) < 0 ||
                       py_call_scores(&call) < 0 || make_outputs(&call, &made) < 0 || execute(&call) < 0;
    py_call_end(&call);
    if (!status)
        return result(&call, &made);
    Py_XDECREF(made.out);
    Py_XDECREF(made.lse);
    Py_XDECREF(made.weights);
    return NULL;
}
