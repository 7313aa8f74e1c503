/* fovea.Linear: y = activation(x W + bias) + residual with packed weights. */
#include "linear.h"
#include "arithmetic.h"
#include "keywords.h"
#include "objects.h"

#include <stddef.h>
#include <string.h>

static void dealloc(PyObject *self) {
    py_linear *linear = (py_linear *)self;
    fovea_linear_destroy(linear->library);
    py_context_drop(linear->context);
    py_object_free(self);
}

/* ---------------------------------------------------------------------------------------------------------- making -- */

static int is_list(PyObject *value) { return PyList_Check(value) || PyTuple_Check(value); }

/* Item i of a list, or the value itself: borrowed, NULL for None. -1 with an exception if the list has another length. */
int py_linear_item(const py_linear *linear, PyObject *value, const char *name, int64_t i, PyObject **to) {
    *to = NULL;
    if (!value || value == Py_None)
        return 0;
    if (!linear || !linear->several) {
        *to = value;
        return 0;
    }
    if (!is_list(value))
        return py_raise(PyExc_TypeError, "%s must be a list of %lld, as weight is", name, (long long)linear->count);
    if (PySequence_Size(value) != linear->count)
        return py_raise(PyExc_ValueError, "%s is a list of %zd, weight of %lld", name, PySequence_Size(value),
                        (long long)linear->count);
    PyObject *found = PyTuple_Check(value) ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i);
    *to = found == Py_None ? NULL : found;
    return found ? 0 : -1;
}

static const char *const activations[] = {[FOVEA_ACTIVATION_RELU] = "relu",
                                          [FOVEA_ACTIVATION_GELU] = "gelu",
                                          [FOVEA_ACTIVATION_GELU_TANH] = "gelu_tanh",
                                          [FOVEA_ACTIVATION_SILU] = "silu",
                                          [FOVEA_ACTIVATION_SILU_GATED] = "silu_gated"};

int py_activation_of(PyObject *word, fovea_activation *activation) {
    *activation = FOVEA_ACTIVATION_NONE;
    if (word == Py_None)
        return 0;
    for (int i = FOVEA_ACTIVATION_RELU; PyUnicode_Check(word) && i <= FOVEA_ACTIVATION_SILU_GATED; i++)
        if (PyUnicode_CompareWithASCIIString(word, activations[i]) == 0) {
            *activation = (fovea_activation)i;
            return 0;
        }
    py_raise_not(word, "activation must be None, 'relu', 'gelu', 'gelu_tanh', 'silu' or 'silu_gated'");
    return -1;
}

int py_hold_list(PyObject **value, PyObject **held) {
    *held = NULL;
    if (!*value || !PyList_Check(*value))
        return 0;
    *held = *value = PySequence_Tuple(*value);
    return *held ? 0 : -1;
}

typedef struct making {
    py_core *core;
    PyObject *weight, *bias, *scale, *heads, *dtype, *arithmetic;
    bool in_first;
    fovea_linear_part parts[PY_LINEAR_PARTS];
    py_array arrays[2 * PY_LINEAR_PARTS];
    int opened;
} making;

/* One matrix with what belongs to it. */
static int open_part(making *m, py_linear *linear, int64_t i) {
    PyObject *weight, *bias, *scale, *heads;
    fovea_linear_part *part = &m->parts[i];
    if (py_linear_item(linear, m->weight, "weight", i, &weight) < 0 ||
        py_linear_item(linear, m->bias, "bias", i, &bias) < 0 ||
        py_linear_item(linear, m->scale, "scale", i, &scale) < 0 ||
        py_linear_item(linear, m->heads, "heads", i, &heads) < 0)
        return -1;
    if (!weight)
        return py_raise(PyExc_TypeError, "weight is None");
    if (py_matrix_open(m->core, weight, "weight", m->in_first, &m->arrays[m->opened], &part->weight) < 0)
        return -1;
    m->opened++;
    linear->out[i] = part->weight.out;
    if (bias) {
        if (py_vector_open(m->core, bias, "bias", part->weight.out, &m->arrays[m->opened], &part->bias_dtype) < 0)
            return -1;
        part->bias = m->arrays[m->opened++].data;
    }
    part->has_scale = scale != NULL;
    part->scale = 1;
    if ((scale && py_number(scale, "scale", &part->scale) < 0) ||
        (heads && py_integer(heads, "heads", &linear->heads[i]) < 0))
        return -1;
    if (heads && (linear->heads[i] < 1 || part->weight.out % linear->heads[i] != 0))
        return py_raise(PyExc_ValueError, "%lld channels cannot be %lld heads", (long long)part->weight.out,
                        (long long)linear->heads[i]);
    return 0;
}

int py_linear_pack(py_linear *linear, const fovea_linear_part *parts) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.activation = linear->activation;
    desc.dtype = linear->dtype;
    desc.arithmetic = linear->arithmetic;
    desc.in_features = linear->in_features;
    desc.part_count = linear->matrices = linear->count;
    desc.parts = parts;
    linear->context = py_context_keep(context);
    PyThreadState *released = PyEval_SaveThread();
    const fovea_status status = fovea_linear_pack(context->library, &desc, &linear->library);
    linear->workspace_size = fovea_linear_workspace_size(linear->library);
    if (status == FOVEA_OK)
        (void)fovea_linear_unpack(linear->library, 0, NULL, NULL, &linear->weight_dtype);
    PyEval_RestoreThread(released);
    for (int64_t i = 0; i < linear->count; i++)
        linear->biased[i] = parts[i].bias != NULL;
    if (status != FOVEA_OK) {
        py_raise_status(status);
        return -1;
    }
    if (linear->activation == FOVEA_ACTIVATION_SILU_GATED) { /* two matrices, one result */
        linear->several = 0;
        linear->count = 1;
    }
    return 0;
}

/* Opens the parts and packs them. */
static int pack(making *m, py_linear *linear) {
    for (int64_t i = 0; i < linear->count; i++)
        if (open_part(m, linear, i) < 0)
            return -1;
    linear->in_features = m->parts[0].weight.in;
    linear->dtype = linear->weight_dtype = m->parts[0].weight.dtype;
    if (py_float_of(m->dtype, &linear->dtype) < 0)
        return -1;
    bool bf16 = linear->dtype == FOVEA_DTYPE_BF16;
    for (int64_t i = 0; i < linear->count; i++)
        bf16 = bf16 && m->parts[i].weight.dtype == FOVEA_DTYPE_BF16 && !m->parts[i].has_scale;
    return py_arithmetic_choose(m->arithmetic, bf16, &linear->arithmetic) < 0 ? -1 : py_linear_pack(linear, m->parts);
}

static PyObject *linear_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"weight", "bias", "activation", "layout", "scale", "heads", "dtype", "arithmetic", NULL};
    making m = {.core = PyType_GetModuleState(type)};
    const char *layout = "out_in";
    PyObject *activation_name = Py_None;
    fovea_activation activation;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$OsOOOO:Linear", names, &m.weight, &m.bias, &activation_name,
                                     &layout, &m.scale, &m.heads, &m.dtype, &m.arithmetic))
        return py_wrong_arguments("Linear", keywords);
    if (py_matrix_layout(layout, &m.in_first) < 0 || py_activation_of(activation_name, &activation) < 0)
        return NULL;
    PyObject *held[2] = {NULL, NULL};
    const int several = is_list(m.weight);
    const Py_ssize_t count = several ? PySequence_Size(m.weight) : 1;
    if (count < 1 || count > PY_LINEAR_PARTS) {
        py_raise(PyExc_ValueError, "weight is a list of %zd matrices: from 1 to %d are possible", count,
                 PY_LINEAR_PARTS);
        return NULL;
    }
    py_linear *self = (py_linear *)py_object_new(type);
    if (!self)
        return NULL;
    self->several = several;
    self->count = count;
    self->activation = activation;
    const int status =
        py_hold_list(&m.weight, &held[0]) < 0 || py_hold_list(&m.bias, &held[1]) < 0 ? -1 : pack(&m, self);
    for (int i = 0; i < m.opened; i++)
        py_array_close(&m.arrays[i]);
    Py_XDECREF(held[0]);
    Py_XDECREF(held[1]);
    if (status == 0)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

static PyObject *describe(PyObject *self, PyObject *none) {
    (void)none;
    char text[1024];
    fovea_linear_describe(((py_linear *)self)->library, text, sizeof text);
    return PyUnicode_FromString(text);
}

/* One number, or a tuple with one for each part. */
static PyObject *out_features(PyObject *self, void *unused) {
    (void)unused;
    const py_linear *linear = (py_linear *)self;
    if (!linear->several)
        return PyLong_FromLongLong(linear->out[0]);
    PyObject *tuple = PyTuple_New(linear->count);
    for (int64_t i = 0; tuple && i < linear->count; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLongLong(linear->out[i]));
    return tuple;
}

static PyMethodDef methods[] = {
    {"execute", (PyCFunction)(void (*)(void))py_linear_execute, METH_FASTCALL | METH_KEYWORDS,
     "execute(x, residual=None, *, out=None, lens=None, part=None, activation=...)\n--\n\n"
     "activation(x W + bias) + residual, of x's kind and type. A call of the object is the same.\n\n"
     "x: [..., in_features], or the heads that attention() gives in layout 'bhtd', [batch, heads, tokens, channels] "
     "with heads *\n"
     "channels = in_features. The result: [..., out_features]; of such heads [batch, tokens, out_features]; with "
     "heads= "
     "of the\n"
     "constructor [batch, heads, tokens, channels]. residual: added, of the result's shape. out: where to write, of "
     "the "
     "result's\n"
     "shape, contiguous in its last axis; may be residual itself. lens: [batch], only the first lens[b] rows of a "
     "sequence are read\n"
     "and written; the others are +0 in an array that was made here, and stay as they are in out. For several "
     "matrices, "
     "residual and\n"
     "out are lists, and the result is a tuple. part: the number of the only one that is computed, with the bits that "
     "it has\n"
     "beside the others; residual and out are then arrays, and so is the result. activation: in place of the "
     "constructor's, None: none.\n\n"
     "ValueError: shapes that do not fit, out that overlaps an input or is read-only, a gradient that would be lost. "
     "TypeError: not\n"
     "of the map's type."},
    {"unpack", (PyCFunction)(void (*)(void))py_linear_unpack, METH_VARARGS | METH_KEYWORDS, py_linear_unpack_doc},
    {"_from_state", py_linear_from_state, METH_VARARGS | METH_CLASS, NULL},
    {"__reduce__", py_linear_reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {"describe", describe, METH_NOARGS, "describe()\n--\n\nA few lines: block sizes and whether they were tuned."},
    {NULL, NULL, 0, NULL},
};

static const py_linear *map_of(PyObject *self) { return (const py_linear *)self; }

enum { WORD_DTYPE, WORD_WEIGHT_DTYPE, WORD_ACTIVATION, WORD_ARITHMETIC, WORDS };

static PyObject *get_word(PyObject *self, void *which) {
    const py_linear *linear = map_of(self);
    const char *const words[WORDS] = {py_float_name(linear->dtype), py_float_name(linear->weight_dtype),
                                      activations[linear->activation], fovea_arithmetic_name(linear->arithmetic)};
    return Py_BuildValue("z", words[(size_t)which]);
}

static PyObject *get_has_bias(PyObject *self, void *unused) {
    (void)unused;
    const py_linear *linear = map_of(self);
    PyObject *tuple = PyTuple_New(linear->matrices);
    for (int64_t i = 0; tuple && i < linear->matrices; i++)
        PyTuple_SetItem(tuple, i, PyBool_FromLong(linear->biased[i]));
    return tuple;
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    const py_linear *linear = map_of(self);
    int64_t bytes = 0;
    for (int64_t i = 0; i < linear->matrices; i++)
        bytes += linear->out[i] * (linear->in_features * (int64_t)py_dtype_size(py_float_dtype(linear->weight_dtype)) +
                                   (linear->biased[i] ? (int64_t)sizeof(float) : 0));
    return PyLong_FromLongLong(bytes);
}

static PyObject *repr(PyObject *self) {
    const py_linear *linear = map_of(self);
    const char *activation = activations[linear->activation];
    PyObject *out = out_features(self, NULL);
    PyObject *text =
        !out ? NULL
             : PyUnicode_FromFormat("<fovea.Linear %lld to %S, %s, weights %s%s%s, arithmetic %s>",
                                    (long long)linear->in_features, out, py_float_name(linear->dtype),
                                    py_float_name(linear->weight_dtype), activation ? ", activation " : "",
                                    activation ? activation : "", fovea_arithmetic_name(linear->arithmetic));
    Py_XDECREF(out);
    return text;
}

static PyGetSetDef getters[] = {
    PY_INT64_GETTER("in_features", py_linear, in_features, "channels of x"),
    {"out_features", out_features, NULL, "channels of the result, or a tuple of those of each", NULL},
    {"dtype", get_word, NULL, "of x, residual and the result", (void *)WORD_DTYPE},
    {"weight_dtype", get_word, NULL, "of the packed weights: theirs, or float32 if they differed or were scaled",
     (void *)WORD_WEIGHT_DTYPE},
    {"activation", get_word, NULL, "a word, or None", (void *)WORD_ACTIVATION},
    {"arithmetic", get_word, NULL, "as asked for", (void *)WORD_ARITHMETIC},
    {"has_bias", get_has_bias, NULL, "a tuple of bools, one for each matrix (silu_gated: two)", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of weights and biases, without what fills panels up", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const char doc[] =
    "Linear(weight, bias=None, *, activation=None, layout='out_in', scale=None, heads=None, dtype=None, "
    "arithmetic=None)\n--\n\n"
    "The map y = activation(x W + bias) + residual with packed weights: copied once, here, into the order in which "
    "they "
    "are read. A row\n"
    "of y has the same bits whatever the other rows, threads and tier. Inference only: later changes of weight have no "
    "effect.\n\n"
    "weight: [out, in] of any strides, or [in, out] with layout='in_out', in float32, bfloat16 or float16. bias: "
    "[out]. "
    "dtype: of x,\n"
    "residual and the result, 'float32', 'bfloat16' or 'float16'; default: weight's. With 16 bits the result is that "
    "of "
    "float32 on the\n"
    "same numbers, rounded once. arithmetic: of bfloat16, as for attention(). activation: 'relu', "
    "'gelu' (erf),\n"
    "'gelu_tanh', 'silu', or 'silu_gated' of a list of two matrices: silu(x W0 + b0) * (x W1 + b1), one result.\n"
    "scale: a number that multiplies weight and bias as they are packed. heads: the result is [batch, "
    "heads, tokens,\n"
    "channels], which attention() reads, instead of rows.\n\n"
    "Several maps of one x are one product: a list of up to 16 weights, then bias, scale and heads are lists, too (an "
    "item may be\n"
    "None), and a call returns a tuple:\n\n"
    "    qkv = fovea.Linear([wq, wk, wv], [bq, bk, bv], heads=[12, 4, 4])\n"
    "    out = fovea.attention(*qkv(x))\n\n"
    "Uses what fovea.config() says when it is made. Any thread may call it. ValueError: shapes that do not fit, a word "
    "that is not\n"
    "known. TypeError: another type.";

static PyType_Slot slots[] = {{Py_tp_new, (void *)linear_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_call, (void *)py_linear_call},
                              {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Linear", sizeof(py_linear), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_linear(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->linear_type); }
