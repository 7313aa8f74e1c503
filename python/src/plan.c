/* fovea.Plan: kernels and tiles chosen once, for calls of one shape. */
#include "call.h"
#include "keywords.h"
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_object {
    PyObject_HEAD py_plan *plan;
    PyObject *arguments; /* what it was made of */
} plan_object;

static void dealloc(PyObject *self) {
    py_plan_drop(((plan_object *)self)->plan);
    Py_XDECREF(((plan_object *)self)->arguments);
    py_object_free(self);
}

/* mask: a kind's name, or a fovea.Mask. */
int py_describe_mask(const py_core *core, PyObject *value, fovea_attention_desc *desc) {
    static const char *const words[] = {"boolean", "bits", "key_padding", "ranges", "prepared"};
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_KEY_PADDING,
                                            FOVEA_MASK_RANGES, FOVEA_MASK_PREPARED};
    if (value == Py_None)
        return 0;
    if (Py_TYPE(value) == core->mask_type) {
        py_mask_describe(value, desc);
        return 0;
    }
    const int place = py_word(value, "mask", "a fovea.Mask", words, sizeof words / sizeof words[0]);
    if (place >= 0)
        desc->mask = kinds[place];
    return place < 0 ? -1 : 0;
}

int py_describe_relative(const py_core *core, PyObject *value, fovea_attention_desc *desc) {
    if (value == Py_None)
        return 0;
    if (Py_TYPE(value) == core->relative_type)
        return py_relative_describe(value, desc);
    if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, "alibi") == 0) {
        desc->relative = FOVEA_RELATIVE_ALIBI;
        return 0;
    }
    return py_raise(PyExc_TypeError, "relative must be a fovea.Relative or 'alibi'");
}

int py_describe_options(py_call *call) {
    PyObject **values = call->values;
    for (int i = 0; i < PY_ARG_COUNT; i++)
        if (values[i] == Py_None)
            values[i] = NULL;
    PyObject *causal = values[PY_ARG_causal] = py_plain_bool(values[PY_ARG_causal]);
    const bool offsets = causal && PyUnicode_Check(causal) && PyUnicode_CompareWithASCIIString(causal, "offset") == 0;
    if (offsets)
        values[PY_ARG_causal] = NULL;
    else if (causal && !PyUnicode_Check(causal) && !PyBool_Check(causal))
        return py_raise(PyExc_TypeError,
                        "causal must be True, 'top_left', 'bottom_right' or 'offset' (q_offsets of execute())");
    if (py_call_options(call) < 0)
        return -1;
    if (offsets)
        call->desc.causal = FOVEA_CAUSAL_OFFSET;
    return 0;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    long long batch = 1, q_heads = -1, kv_heads = -1, q_len = -1, kv_len = -1, head_dim = -1, value_dim = -1;
    PyObject *dtype = NULL, *mask = Py_None, *relative = Py_None;
    int is_packed = 0;
    py_core *core = PyType_GetModuleState(type);
    PyObject *values[PY_ARG_COUNT] = {NULL};
    py_call call;
    py_call_begin(&call, core, values);
    fovea_attention_desc *desc = &call.desc;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$LLO&LLLO&pOO" PY_FIELD_FORMAT "OOOO:Plan", py_plan_names,
                                     &batch, &q_heads, py_size_or_none, &kv_heads, &q_len, &kv_len, &head_dim,
                                     py_size_or_none, &value_dim, &is_packed, &dtype, &values[PY_ARG_arithmetic],
                                     PY_FIELDS(values, desc), &values[PY_ARG_causal], &values[PY_ARG_window], &mask,
                                     &relative))
        return py_wrong_arguments("Plan", keywords);
    if (q_heads < 0 || q_len < 0 || kv_len < 0 || head_dim < 0) {
        PyErr_SetString(PyExc_ValueError, "Plan needs q_heads, q_len, kv_len and head_dim, none of them negative");
        return NULL;
    }
    desc->dtype = FOVEA_DTYPE_F32;
    if (py_float_of(dtype, &desc->dtype) < 0)
        return NULL;
    desc->k_dtype = desc->v_dtype = desc->out_dtype = desc->dtype;
    desc->batch = batch;
    desc->q_heads = q_heads;
    desc->kv_heads = kv_heads < 0 ? q_heads : kv_heads;
    desc->q_len = q_len;
    desc->kv_len = kv_len;
    desc->head_dim = head_dim;
    desc->value_dim = value_dim < 0 ? head_dim : value_dim;
    int status = py_describe_options(&call);
    desc->packed = is_packed;
    if (status == 0)
        status = py_describe_mask(core, mask, desc) < 0 || py_describe_relative(core, relative, desc) < 0 ? -1 : 0;
    py_context *context = status == 0 ? py_context_now() : NULL;
    py_plan *plan = context ? py_plan_make(context, desc) : NULL;
    py_call_end(&call);
    plan_object *self = plan ? (plan_object *)py_object_new(type) : NULL;
    if (!self)
        py_plan_drop(plan);
    else {
        self->plan = plan;
        self->arguments = py_arguments(args, keywords);
        const fovea_arithmetic computed = fovea_attention_plan_arithmetic(plan->library); /* config's, fastest's */
        PyObject *word = PyUnicode_FromString(fovea_arithmetic_name(computed));
        if (!word || !self->arguments ||
            PyDict_SetItemString(PyTuple_GetItem(self->arguments, 1), "arithmetic", word) < 0) {
            Py_DECREF((PyObject *)self);
            self = NULL;
        }
        Py_XDECREF(word);
    }
    return (PyObject *)self;
}

/* Sizes and choices that a call must share with its plan. */
typedef struct field {
    const char *name;
    size_t offset, size;
} field;
#define FIELD(name)                                                                                                    \
    { #name, offsetof(fovea_attention_desc, name), sizeof(((fovea_attention_desc *)0)->name) }

static const field fields[] = {FIELD(batch),
                               FIELD(q_heads),
                               FIELD(kv_heads),
                               FIELD(q_len),
                               FIELD(kv_len),
                               FIELD(head_dim),
                               FIELD(value_dim),
                               FIELD(mask),
#define FOVEA_DESC_GIVEN(name, argument, text) FIELD(name),
#include "fovea/fields.inc"
                               FIELD(packed),
                               FIELD(relative),
                               FIELD(mask_block_rows),
                               FIELD(mask_block_keys),
                               FIELD(relative_bidirectional),
                               FIELD(relative_buckets),
                               FIELD(relative_max_distance),
                               FIELD(relative_height),
                               FIELD(relative_width)};

static long long value_of(const fovea_attention_desc *desc, const field *f) {
    int64_t wide = 0;
    int narrow = 0;
    memcpy(f->size == sizeof wide ? (void *)&wide : (void *)&narrow, (const char *)desc + f->offset, f->size);
    return f->size == sizeof wide ? wide : narrow;
}

static int same(const fovea_attention_desc *call, const fovea_attention_desc *plan) {
    const fovea_dtype types[4] = {call->dtype, call->k_dtype, call->v_dtype, call->out_dtype};
    static const char *const names[4] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; i++)
        if (types[i] != plan->dtype)
            return py_raise(PyExc_TypeError, "%s is %s, the plan's is %s", names[i], py_dtype_name(types[i]),
                            py_dtype_name(plan->dtype));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const long long given = value_of(call, &fields[i]), planned = value_of(plan, &fields[i]);
        const bool longest = plan->packed && (fields[i].offset == offsetof(fovea_attention_desc, q_len) ||
                                              fields[i].offset == offsetof(fovea_attention_desc, kv_len));
        if (longest ? given > planned : given != planned)
            return py_raise(PyExc_ValueError, "%s is %lld, the plan's is %lld", fields[i].name, given, planned);
    }
    return 0;
}

static PyObject *execute(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    py_core *core = py_core_of_object(self);
    py_plan *plan = ((plan_object *)self)->plan;
    PyObject *values[PY_ARG_COUNT];
    if (py_call_parse(core, "execute", args, count, keywords, values) < 0)
        return NULL;
    if (py_call_describes(values)) {
        PyErr_SetString(PyExc_TypeError,
                        "causal, window, " PY_NUMBER_WORDS " and arithmetic are the plan's: give them to fovea.Plan()");
        return NULL;
    }
    py_call call;
    py_call_begin(&call, core, values);
    call.mask_kind = plan->desc.mask;
    PyObject *result = NULL;
    plan->references++;
    if (py_call_tensors(&call) == 0 && py_call_sequences(&call) == 0 && py_call_scores(&call) == 0 &&
        py_call_outputs(&call) == 0 && same(&call.desc, &plan->desc) == 0)
        result = py_call_run(&call, plan);
    py_call_end(&call);
    py_plan_drop(plan);
    return result;
}

static PyObject *describe(PyObject *self, PyObject *none) {
    (void)none;
    const fovea_attention_plan *plan = ((plan_object *)self)->plan->library;
    const size_t length = fovea_attention_plan_describe(plan, NULL, 0);
    char *text = malloc(length + 1);
    if (!text)
        return PyErr_NoMemory();
    fovea_attention_plan_describe(plan, text, length + 1);
    PyObject *result = PyUnicode_FromString(text);
    free(text);
    return result;
}

static PyObject *workspace_size(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(((plan_object *)self)->plan->workspace_size);
}

static PyObject *repr(PyObject *self) { return py_stored("text", "Plan", NULL, ((plan_object *)self)->arguments); }

static PyObject *reduce(PyObject *self, PyObject *none) {
    (void)none;
    return py_stored("reduce", "Plan", NULL, ((plan_object *)self)->arguments);
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {"execute", (PyCFunction)(void (*)(void))execute, METH_FASTCALL | METH_KEYWORDS, py_plan_execute_doc},
    {"describe", describe, METH_NOARGS, py_plan_describe_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"workspace_size", workspace_size, NULL, "bytes of scratch memory that a call uses, never O(queries x keys)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_new, (void *)plan_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_plan_doc},
                              {Py_tp_repr, (void *)repr},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Plan", sizeof(plan_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_plan(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->plan_type); }
