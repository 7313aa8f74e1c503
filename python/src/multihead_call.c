/* Execution of fovea.MultiHead (multihead.h). */
#include "keywords.h"
#include "multihead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void py_layer_drop(py_layer *layer) {
    if (layer && --layer->references == 0) {
        fovea_mha_destroy(layer->library);
        free(layer);
    }
}

/* -------------------------------------------------------------------------------------------------------- shapes -- */

static py_layer *make_layer(const py_multihead *self, int64_t batch, int64_t q_len, int64_t kv_len) {
    py_layer *layer = malloc(sizeof *layer);
    if (!layer) {
        PyErr_NoMemory();
        return NULL;
    }
    const fovea_status status = fovea_mha_reshape(self->first, batch, q_len, kv_len, &layer->library);
    if (py_checked(status) < 0) {
        free(layer);
        return NULL;
    }
    layer->batch = batch;
    layer->q_len = q_len;
    layer->kv_len = kv_len;
    layer->workspace_size = fovea_mha_workspace_size(layer->library);
    layer->references = 1;
    return layer;
}

/* The layer of a shape; a reference of the caller's. */
static py_layer *find_layer(py_multihead *self, int64_t batch, int64_t q_len, int64_t kv_len) {
    py_layer **layers = self->layers;
    int at = 0;
    while (at < PY_LAYERS && layers[at] &&
           (layers[at]->batch != batch || layers[at]->q_len != q_len || layers[at]->kv_len != kv_len))
        at++;
    py_layer *found = at < PY_LAYERS ? layers[at] : NULL;
    if (!found) {
        found = make_layer(self, batch, q_len, kv_len);
        if (!found)
            return NULL;
        if (at == PY_LAYERS)
            py_layer_drop(layers[--at]);
    }
    memmove(&layers[1], &layers[0], (size_t)at * sizeof layers[0]);
    layers[0] = found;
    found->references++;
    return found;
}

/* -------------------------------------------------------------------------------------------------------- inputs -- */

/* Rows of heads * channels as heads. */
static void split_heads(fovea_tensor *tensor, int64_t heads) {
    if (tensor->shape[1] != 1)
        return;
    tensor->shape[1] = heads;
    tensor->shape[3] /= heads;
    tensor->stride[1] = tensor->shape[3];
}

static int open_input(const py_multihead *self, py_call *call, int argument, const char *name, int64_t features,
                      int64_t heads, fovea_tensor *tensor, int *ndim) {
    PyObject *object = call->values[argument];
    const fovea_dtype dtype = self->attention.dtype;
    if (!object)
        return py_raise(PyExc_TypeError, "execute() of a layer with these inputs needs %s", name);
    py_array *array = py_call_open(call, object, name);
    if (!array || py_array_of(array, name, dtype) < 0)
        return -1;
    if (array->ndim < 2 || array->ndim > 4)
        return py_raise(PyExc_ValueError,
                        "%s has %d dimensions: it must be [batch, tokens, features], [tokens, features] or heads "
                        "[batch, heads, tokens, channels]",
                        name, array->ndim);
    if (py_rows(array, name, dtype, features, true, tensor) < 0)
        return -1;
    if (heads)
        split_heads(tensor, heads);
    *ndim = array->ndim;
    return 0;
}

/* Sequences on one axis of tokens. Where there is one input, its are those of the keys, too. */
static int open_packed(const py_multihead *self, py_call *call) {
    if (call->args.q.shape[0] != 1)
        return py_raise(PyExc_ValueError, "packed sequences have no axis of batches: pass [tokens, features]");
    if (self->attention.page_keys > 0)
        return py_call_packed_queries(call);
    if (self->desc.inputs == FOVEA_MHA_SELF && !call->values[PY_ARG_kv_cu_seqlens])
        call->values[PY_ARG_kv_cu_seqlens] = call->values[PY_ARG_q_cu_seqlens];
    return py_call_packed(call);
}

/* q, k and v, as far as the layer has them, and sizes. */
static int open_inputs(const py_multihead *self, py_call *call, int *ndim) {
    const fovea_mha_desc *desc = &self->desc;
    const fovea_attention_desc *attention = &self->attention;
    fovea_attention_args *args = &call->args;
    const bool heads = desc->form == FOVEA_MHA_PROJECTED, tied = desc->form == FOVEA_MHA_TIED;
    const int64_t q = heads ? attention->q_heads * attention->head_dim : desc->q_features,
                  k = heads                       ? attention->kv_heads * attention->head_dim
                      : tied || !desc->k_features ? desc->q_features
                                                  : desc->k_features,
                  v = heads                       ? attention->kv_heads * attention->value_dim
                      : tied || !desc->v_features ? k
                                                  : desc->v_features;
    const int64_t q_heads = heads ? attention->q_heads : 0, kv_heads = heads ? attention->kv_heads : 0;
    int others;
    if (open_input(self, call, PY_ARG_q, "q", q, q_heads, &args->q, ndim) < 0)
        return -1;
    call->source = call->arrays[0].source;
    if (desc->inputs != FOVEA_MHA_SELF && open_input(self, call, PY_ARG_k, "k", k, kv_heads, &args->k, &others) < 0)
        return -1;
    if (desc->inputs == FOVEA_MHA_SEPARATE && open_input(self, call, PY_ARG_v, "v", v, kv_heads, &args->v, &others) < 0)
        return -1;
    if ((desc->inputs != FOVEA_MHA_SEPARATE && call->values[PY_ARG_v]) ||
        (desc->inputs == FOVEA_MHA_SELF && call->values[PY_ARG_k]))
        return py_raise(PyExc_TypeError, "the layer was made for fewer inputs: say inputs='cross' or 'separate'");
    call->desc = *attention;
    call->desc.batch = args->q.shape[0];
    call->desc.q_len = args->q.shape[2];
    if (desc->inputs == FOVEA_MHA_SELF)
        args->k.shape[2] = args->q.shape[2]; /* for masks; it stays absent */
    call->desc.kv_len = args->k.shape[2];
    return attention->packed ? open_packed(self, call) : 0;
}

/* Arrays that go with the scores; each must be of the kind that the layer was made for. */
static int open_scores(const py_multihead *self, py_call *call) {
    fovea_attention_desc *desc = &call->desc;
    desc->mask = FOVEA_MASK_NONE;
    desc->has_bias = desc->has_sinks = 0;
    desc->relative = FOVEA_RELATIVE_NONE;
    call->mask_kind = self->attention.mask;
    if (py_call_scores(call) < 0)
        return -1;
    const struct {
        const char *name;
        int given, made;
    } kinds[] = {{"mask", (int)desc->mask, (int)self->attention.mask},
                 {"bias", desc->has_bias, self->attention.has_bias},
                 {"sinks", desc->has_sinks, self->attention.has_sinks},
                 {"relative or alibi", (int)desc->relative, (int)self->attention.relative}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].given != kinds[i].made)
            return py_raise(PyExc_ValueError, "%s %s: the layer was made for %s", kinds[i].name,
                            kinds[i].given ? "is given, or of another kind" : "is missing",
                            kinds[i].made ? "one (see mask=, bias=, sinks=, relative= of MultiHead())" : "none");
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- outputs -- */

/* The next of the call's arrays, made. */
static PyObject *make(py_call *call, py_dtype dtype, int ndim, const int64_t *shape, py_array **array) {
    *array = &call->arrays[call->array_count];
    PyObject *object = py_array_empty(call->core, call->source, dtype, ndim, shape, *array);
    call->array_count += object != NULL;
    return object;
}

static int open_out(const py_multihead *self, py_call *call, int ndim) {
    const fovea_tensor *q = &call->args.q;
    const int64_t out = self->desc.out_features, heads = self->attention.q_heads, value = self->attention.value_dim;
    const int64_t whole[4] = {q->shape[0], heads, q->shape[2], value}, rows[3] = {q->shape[0], q->shape[2], out};
    const int64_t *shape = out == 0 ? whole : ndim == 2 ? &rows[1] : rows;
    const int dimensions = out == 0 ? 4 : ndim == 2 ? 2 : 3;
    PyObject *given = call->values[PY_ARG_out];
    py_array *array = &call->arrays[call->array_count];
    if (given) {
        if (py_given(call->core, given, "out", self->attention.dtype, dimensions, shape, array) < 0)
            return -1;
        call->array_count++;
        call->made[0] = Py_NewRef(given);
    } else if (!(call->made[0] = make(call, py_float_dtype(self->attention.dtype), dimensions, shape, &array)))
        return -1;
    if (call->desc.packed && !given) /* tokens of no sequence are not written */
        py_array_fill(array, 0);
    if (out)
        return py_rows(array, "out", self->attention.dtype, out, false, &call->args.out);
    call->args.out = (fovea_tensor){.data = array->data, .dtype = self->attention.dtype};
    memcpy(call->args.out.shape, array->shape, sizeof whole);
    memcpy(call->args.out.stride, array->stride, sizeof whole);
    return 0;
}

static int open_more(py_call *call, int argument, int ndim, int64_t last, fovea_tensor *tensor, PyObject **made) {
    PyObject *value = call->values[argument];
    const int asked = value ? PyObject_IsTrue(value) : 0;
    if (asked <= 0)
        return asked;
    const bool packed = call->desc.packed;
    const int64_t shape[4] = {call->args.q.shape[0], call->desc.q_heads, call->args.q.shape[2], last};
    py_array *array;
    if (!(*made = make(call, PY_F32, ndim - packed, shape + packed, &array)))
        return -1;
    if (packed)
        py_array_fill(array, argument == PY_ARG_return_lse ? -INFINITY : 0);
    *tensor = fovea_tensor_bhtd(array->data, FOVEA_DTYPE_F32, shape[0], shape[1], shape[2], last);
    return 0;
}

static PyObject *result_of(py_call *call) {
    PyObject *parts[3];
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (call->made[i]) {
            if (i > 0 || !call->values[PY_ARG_out])
                call->made[i] = py_array_finish(call->values[PY_ARG_q], call->source, call->made[i]);
            parts[count++] = call->made[i];
        }
    if (count > 1)
        return count == 2 ? PyTuple_Pack(2, parts[0], parts[1]) : PyTuple_Pack(3, parts[0], parts[1], parts[2]);
    return Py_NewRef(parts[0]);
}

static PyObject *run(py_multihead *self, py_call *call) {
    py_layer *layer = find_layer(self, call->desc.batch, call->desc.q_len, call->desc.kv_len);
    if (!layer)
        return NULL;
    PyThreadState *released = PyEval_SaveThread();
    void *workspace = py_workspace(layer->workspace_size);
    const fovea_status status =
        fovea_mha_execute(layer->library, &call->args, workspace, workspace ? layer->workspace_size : 0);
    py_workspace_done(workspace, layer->workspace_size);
    PyEval_RestoreThread(released);
    py_layer_drop(layer);
    return status == FOVEA_OK ? result_of(call) : py_cache_raise(call->core, status);
}

static const short argument_names[PY_LAYER_ARGUMENTS] = {
#define PY_ARG_NAME(name) PY_NAME_##name,
    PY_ATTENTION_NAMES(PY_ARG_NAME)
#undef PY_ARG_NAME
        [PY_LAYER_cache] = PY_NAME_cache,
    [PY_LAYER_layer] = PY_NAME_layer, [PY_LAYER_sequences] = PY_NAME_sequences};

PyObject *py_multihead_execute(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    py_multihead *self = (py_multihead *)object;
    py_core *core = py_core_of_object(object);
    static const py_signature signature = {"execute", argument_names, PY_LAYER_ARGUMENTS, 3, 1};
    PyObject *values[PY_LAYER_ARGUMENTS];
    if (py_parse(core, &signature, args, count, keywords, values) < 0)
        return NULL;
    if (py_call_describes(values) || values[PY_ARG_layout] || values[PY_ARG_out_layout] ||
        (!self->attention.packed && (values[PY_ARG_q_cu_seqlens] || values[PY_ARG_kv_cu_seqlens]))) {
        PyErr_SetString(PyExc_TypeError,
                        "execute() of a layer has no layout, and cu_seqlens only if made with q_tokens=; causal, "
                        "window, " PY_NUMBER_WORDS " and arithmetic are given to fovea.MultiHead()");
        return NULL;
    }
    py_call call;
    py_call_begin(&call, core, values);
    py_cache_use use = {NULL, 0, false, NULL};
    int ndim;
    PyObject *result = NULL;
    if (open_inputs(self, &call, &ndim) == 0 && py_call_sequences(&call) == 0 &&
        py_layer_cache_open(self, &call, &use) == 0 && open_scores(self, &call) == 0 &&
        open_out(self, &call, ndim) == 0 &&
        open_more(&call, PY_ARG_return_lse, 3, 1, &call.args.lse, &call.made[1]) == 0 &&
        open_more(&call, PY_ARG_return_weights, 4, call.args.k.shape[2], &call.args.weights, &call.made[2]) == 0)
        result = run(self, &call);
    py_layer_cache_close(&call, &use);
    py_call_end(&call);
    return result;
}
