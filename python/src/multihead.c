/* fovea.MultiHead: how it is made (multihead.h). */
#include "multihead.h"
#include "arithmetic.h"
#include "keywords.h"
#include "multihead_weights.h"
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void dealloc(PyObject *self) {
    py_multihead *layer = (py_multihead *)self;
    for (int i = 0; i < PY_LAYERS; i++)
        py_layer_drop(layer->layers[i]);
    fovea_mha_destroy(layer->first);
    free(layer->norm[0]);
    free(layer->norm[1]);
    py_context_drop(layer->context);
    py_object_free(self);
}

/* --------------------------------------------------------------------------------------------------------- words -- */

typedef struct choice {
    const char *name, *words[7]; /* by the number of the constant */
} choice;
static const choice forms = {"form", {"factored", "merged", "folded", "projected", "tied", "fused"}},
                    inputs = {"inputs", {"self", "cross", "separate"}}, orders = {"order", {"qkv", "grouped"}},
                    folds = {"fold_values", {"never", "cheaper", "always"}}, merges = {"merge", {"queries", "keys"}};

/* The number of a word, or -1 with ValueError. */
static int number_of(const choice *c, const char *word) {
    for (int i = 0; c->words[i]; i++)
        if (strcmp(word, c->words[i]) == 0)
            return i;
    return py_raise(PyExc_ValueError, "%s cannot be '%.*s' (see help(fovea.MultiHead))", c->name, py_word_length(word),
                    word);
}

/* The form that the given weights imply, if form= is absent. */
static fovea_mha_form form_of(const py_making *m) {
    const fovea_mha_weights *w = &m->weights;
    return w->fused.data                                           ? FOVEA_MHA_FUSED
           : m->merged != Py_None                                  ? FOVEA_MHA_MERGED
           : w->outer_q.data || w->outer_k.data || w->outer_v.data ? FOVEA_MHA_FOLDED
           : !w->q.data && !w->k.data && !w->v.data                ? FOVEA_MHA_PROJECTED
           : w->q.data && !w->k.data && !w->v.data                 ? FOVEA_MHA_TIED
                                                                   : FOVEA_MHA_FACTORED;
}

static int describe_form(py_making *m, fovea_mha_desc *desc) {
    int word = m->form ? number_of(&forms, m->form) : (int)form_of(m);
    if (word < 0)
        return -1;
    desc->form = (fovea_mha_form)word;
    word = m->inputs ? number_of(&inputs, m->inputs) : desc->form == FOVEA_MHA_PROJECTED ? 2 : 0;
    desc->inputs = (fovea_mha_inputs)word;
    const int order = number_of(&orders, m->order), fold = number_of(&folds, m->fold_values),
              merge = number_of(&merges, m->merge);
    if (word < 0 || order < 0 || fold < 0 || merge < 0)
        return -1;
    m->weights.order = (fovea_mha_order)order;
    desc->fold_values = (fovea_mha_fold)fold;
    desc->merge = (fovea_mha_merge)merge;
    if (m->quant != Py_None && (desc->form == FOVEA_MHA_MERGED || desc->form == FOVEA_MHA_FOLDED || fold > 0))
        return py_raise(PyExc_ValueError,
                        "quantization: a layer of form %s%s multiplies weights, which makes floats of them",
                        forms.words[desc->form], fold > 0 ? " with fold_values" : "");
    return 0;
}

static int64_t input_of(const fovea_matrix *outer, const fovea_matrix *inner) {
    return outer->data ? outer->in : inner->data ? inner->in : 0;
}

/* Sizes, as the weights have them. What they contradict each other in, the library finds. */
static int describe_sizes(py_making *m, fovea_mha_desc *desc, fovea_attention_desc *attention) {
    const fovea_mha_weights *w = &m->weights;
    if (m->heads < 1)
        return py_raise(PyExc_ValueError, "q_heads must be at least 1, not %lld", m->heads);
    const int64_t heads = m->heads, kv_heads = m->kv_heads < 0 ? heads : m->kv_heads;
    if (kv_heads < 1)
        return py_raise(PyExc_ValueError, "kv_heads must be at least 1, not %lld", (long long)kv_heads);
    int64_t head_dim = w->q.data ? w->q.out / heads : w->fused.data ? w->fused.out / (heads + 2 * kv_heads) : -1;
    if (m->head_dim >= 0)
        head_dim = m->head_dim;
    if (head_dim < 0)
        return py_raise(PyExc_ValueError, "head_dim must be given: no weight of this form says it");
    int64_t value_dim = w->v.data ? w->v.out / kv_heads : head_dim;
    if (m->value_dim >= 0)
        value_dim = m->value_dim;
    attention->batch = m->shape[0];
    attention->q_len = m->shape[1];
    attention->kv_len = m->shape[2];
    attention->q_heads = heads;
    attention->kv_heads = kv_heads;
    attention->head_dim = head_dim;
    attention->value_dim = value_dim;
    desc->q_features = w->fused.data ? w->fused.in : w->merged ? w->merged[0].in : input_of(&w->outer_q, &w->q);
    if (desc->inputs != FOVEA_MHA_SELF && !w->fused.data && desc->form != FOVEA_MHA_TIED) {
        desc->k_features = w->merged ? w->merged[0].out : input_of(&w->outer_k, &w->k);
        desc->v_features = input_of(&w->outer_v, &w->v);
    }
    desc->out_features = w->o.data ? w->o.out : 0;
    desc->biases = m->biased;
    return 0;
}

/* That of dtype=, else of the first weight; and the arithmetic of it. */
static int describe_types(const py_making *m, fovea_mha_desc *desc, fovea_attention_desc *attention) {
    fovea_dtype dtype = FOVEA_DTYPE_F32;
    const fovea_mha_weights *w = &m->weights;
    for (int i = PY_W_COUNT - 1; i >= 0; i--)
        if (m->matrices[i] != Py_None)
            dtype = m->types[i];
    if (w->merged && !w->v.data && !w->o.data)
        dtype = w->merged[0].dtype;
    if (py_float_of(m->dtype, &dtype) < 0)
        return -1;
    attention->dtype = attention->k_dtype = attention->v_dtype = attention->out_dtype = dtype;
    if (m->quantized)
        desc->quantized_arithmetic = m->arithmetic_of_quantized;
    const bool of_weights = py_making_integers(m); /* attention then has the default */
    return py_arithmetic_choose(of_weights ? NULL : m->arithmetic, dtype == FOVEA_DTYPE_BF16, &attention->arithmetic);
}

/* Options of attention, as for fovea.Plan. */
static int describe_options(py_making *m, const fovea_mha_desc *desc, fovea_attention_desc *attention, py_call *call,
                            PyObject *mask, PyObject *relative) {
    if (call->values[PY_ARG_causal] == Py_True && desc->inputs != FOVEA_MHA_SELF)
        return py_raise(PyExc_ValueError,
                        "causal=True is ambiguous for queries and keys of different lengths: say 'top_left' or "
                        "'bottom_right'");
    int status = py_describe_options(call);
    if (status == 0) {
        *attention = call->desc;
        status =
            py_describe_mask(m->core, mask, attention) < 0 || py_describe_relative(m->core, relative, attention) < 0
                ? -1
                : 0;
    }
    py_call_end(call);
    return status;
}

/* q_tokens, kv_tokens: sequences are packed. 0 is no number of the caller's: the library takes it for its default. */
static int describe_packed(const py_making *m, fovea_mha_desc *desc, fovea_attention_desc *attention) {
    if (m->q_tokens == 0 || m->kv_tokens == 0)
        return py_raise(PyExc_ValueError, "q_tokens and kv_tokens must be at least 1");
    attention->packed = m->q_tokens > 0;
    desc->q_tokens = m->q_tokens < 0 ? 0 : m->q_tokens;
    desc->kv_tokens = m->kv_tokens < 0 ? desc->q_tokens : m->kv_tokens;
    return 0;
}

static PyObject *multihead_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    py_making m = {.core = PyType_GetModuleState(type),
                   .kv_heads = -1,
                   .head_dim = -1,
                   .value_dim = -1,
                   .q_tokens = -1,
                   .kv_tokens = -1,
                   .shape = {1, 512, 512},
                   .merged = Py_None,
                   .cache_dtype = Py_None,
                   .norms = {Py_None, Py_None},
                   .quant = Py_None,
                   .layout = "out_in",
                   .order = "qkv",
                   .fold_values = "never",
                   .merge = "queries"};
    for (int i = 0; i < PY_W_COUNT; i++)
        m.matrices[i] = m.biases[i] = Py_None;
    PyObject *values[PY_ARG_COUNT] = {NULL}, *mask = Py_None, *relative = Py_None;
    py_call call;
    py_call_begin(&call, m.core, values);
    double norm_eps = 1e-6;
    PyObject **w = m.matrices, **b = m.biases;
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "|$LO&OOOOOOOOOOOOOOOOOzzssssO&O&(LLL)OOO&O&OOOdO" PY_FIELD_FORMAT "OOOO:MultiHead",
            py_multihead_names, &m.heads, py_size_or_none, &m.kv_heads, &w[PY_W_Q], &w[PY_W_K], &w[PY_W_V], &w[PY_W_O],
            &w[PY_W_FUSED], &w[PY_W_OUTER_Q], &w[PY_W_OUTER_K], &w[PY_W_OUTER_V], &b[PY_W_Q], &b[PY_W_K], &b[PY_W_V],
            &b[PY_W_O], &b[PY_W_FUSED], &b[PY_W_OUTER_Q], &b[PY_W_OUTER_K], &b[PY_W_OUTER_V], &m.merged, &m.form,
            &m.inputs, &m.layout, &m.order, &m.fold_values, &m.merge, py_size_or_none, &m.head_dim, py_size_or_none,
            &m.value_dim, &m.shape[0], &m.shape[1], &m.shape[2], &m.dtype, &m.arithmetic, py_size_or_none, &m.q_tokens,
            py_size_or_none, &m.kv_tokens, &m.cache_dtype, &m.norms[0], &m.norms[1], &norm_eps, &m.quant,
            PY_FIELDS(values, &call.desc), &values[PY_ARG_causal], &values[PY_ARG_window], &mask, &relative))
        return py_wrong_arguments("MultiHead", keywords);
    PyObject *causal = values[PY_ARG_causal] = py_plain_bool(values[PY_ARG_causal]);
    py_multihead *self = (py_multihead *)py_object_new(type);
    if (!self)
        return NULL;
    fovea_mha_desc_init(&self->desc);
    int status = -1;
    if (py_making_open(&m) == 0 && describe_form(&m, &self->desc) == 0 &&
        describe_options(&m, &self->desc, &self->attention, &call, mask, relative) == 0 &&
        describe_sizes(&m, &self->desc, &self->attention) == 0 &&
        describe_types(&m, &self->desc, &self->attention) == 0 &&
        describe_packed(&m, &self->desc, &self->attention) == 0 &&
        py_layer_caches(m.cache_dtype, causal, &self->attention) == 0 &&
        py_making_norms(&m, self->attention.head_dim) == 0) {
        self->desc.norm_eps = norm_eps;
        status = py_multihead_create(self, &m.weights);
    }
    py_making_close(&m);
    if (status == 0)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- type -- */

static PyObject *call(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *bound = PyObject_GetAttrString(self, "execute");
    PyObject *result = bound ? PyObject_Call(bound, args, keywords) : NULL;
    Py_XDECREF(bound);
    return result;
}

/* Sets the types of the packed weights of q, k, v and o, and returns the bytes of all. */
static size_t packed_types(const py_multihead *layer, fovea_dtype types[4]) {
    const fovea_linear *maps[4];
    size_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        int64_t part, in, out;
        bool before = false;
        (void)fovea_mha_linear(layer->first, i, &maps[i], &part, &in, &out);
        types[i] = 0;
        if (maps[i])
            (void)fovea_linear_unpack(maps[i], part, NULL, NULL, &types[i]);
        for (int j = 0; j < i; j++)
            before = before || maps[j] == maps[i];
        bytes += before ? 0 : fovea_linear_weight_bytes(maps[i]);
    }
    return bytes;
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    fovea_dtype types[4];
    return PyLong_FromSize_t(packed_types((const py_multihead *)self, types));
}

static PyObject *get_weight_dtypes(PyObject *self, void *unused) {
    (void)unused;
    fovea_dtype types[4];
    (void)packed_types((const py_multihead *)self, types);
    const char *names[4];
    for (int i = 0; i < 4; i++)
        names[i] = types[i] ? py_dtype_name(types[i]) : NULL;
    return Py_BuildValue("(zzzz)", names[0], names[1], names[2], names[3]);
}

static PyObject *get_form(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(forms.words[((py_multihead *)self)->desc.form]);
}

/* The types and arithmetic of weights, some of which are quantized; else nothing. A new reference. */
static PyObject *repr_weights(const py_multihead *layer) {
    fovea_dtype types[4];
    (void)packed_types(layer, types);
    PyObject *text = PyUnicode_FromString("");
    bool quantized = false;
    for (int i = 0; text && i < 4; i++)
        if (types[i]) {
            PyObject *more = PyUnicode_FromFormat("%U%s%s", text, i ? ", " : ", weights ", py_dtype_name(types[i]));
            Py_DECREF(text);
            text = more;
            quantized = quantized || py_dtype_quantized(types[i]);
        }
    PyObject *whole =
        !text       ? NULL
        : quantized ? PyUnicode_FromFormat("%U (%s)", text, fovea_arithmetic_name(layer->desc.quantized_arithmetic))
                    : PyUnicode_FromString("");
    Py_XDECREF(text);
    return whole;
}

static PyObject *repr(PyObject *self) {
    const py_multihead *layer = (const py_multihead *)self;
    const fovea_attention_desc *a = &layer->attention;
    PyObject *weights = repr_weights(layer);
    PyObject *text =
        !weights
            ? NULL
            : PyUnicode_FromFormat("<fovea.MultiHead %s, %lld and %lld heads of %lld and %lld channels, %lld to %lld, "
                                   "%s, arithmetic %s%U%s>",
                                   forms.words[layer->desc.form], (long long)a->q_heads, (long long)a->kv_heads,
                                   (long long)a->head_dim, (long long)a->value_dim, (long long)layer->desc.q_features,
                                   (long long)layer->desc.out_features, py_dtype_name(a->dtype),
                                   fovea_arithmetic_name(a->arithmetic), weights,
                                   a->page_keys > 0 ? ", over a KVCache" : "");
    Py_XDECREF(weights);
    return text;
}

static PyMethodDef methods[] = {
    {"__reduce__", py_multihead_reduce, METH_NOARGS, NULL},
    {"_from_state", py_multihead_from_state, METH_VARARGS | METH_CLASS, NULL},
    PY_IMMUTABLE_METHODS,
    {"execute", (PyCFunction)(void (*)(void))py_multihead_execute, METH_FASTCALL | METH_KEYWORDS,
     py_multihead_execute_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"form", get_form, NULL, "how the layer is computed, see help(fovea.MultiHead)", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of the packed weights", NULL},
    {"weight_dtypes", get_weight_dtypes, NULL, "of q, k, v and o: the type of its packed weights, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)multihead_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_call, (void *)call},
                              {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_multihead_doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.MultiHead", sizeof(py_multihead), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

int py_add_multihead(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->multihead_type); }
