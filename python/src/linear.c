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
    {"quantized", (PyCFunction)(void (*)(void))py_linear_quantized, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     py_linear_quantized_doc},
    {"_from_state", py_linear_from_state, METH_VARARGS | METH_CLASS, NULL},
    {"__reduce__", py_linear_reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {"describe", describe, METH_NOARGS, "describe()\n--\n\nA few lines: block sizes and whether they were tuned."},
    {NULL, NULL, 0, NULL},
};

static const py_linear *map_of(PyObject *self) { return (const py_linear *)self; }

enum { WORD_DTYPE, WORD_WEIGHT_DTYPE, WORD_ACTIVATION, WORD_ARITHMETIC, WORD_QUANT, WORDS };

static PyObject *get_word(PyObject *self, void *which) {
    const py_linear *linear = map_of(self);
    const char *const words[WORDS] = {py_dtype_name(linear->dtype), py_dtype_name(linear->weight_dtype),
                                      py_activation_name(linear->activation), fovea_arithmetic_name(linear->arithmetic),
                                      linear->quant};
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

/* Bytes of the scales and zeros of an output channel. */
static int64_t scale_bytes(const py_linear *linear) {
    if (!py_dtype_scaled(linear->weight_dtype))
        return 0;
    const int64_t groups = linear->group_size ? linear->in_features / linear->group_size : 1;
    return groups * ((int64_t)py_dtype_size(py_float_dtype(linear->scale_dtype)) + linear->has_zeros);
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    const py_linear *linear = map_of(self);
    int64_t bytes = 0;
    for (int64_t i = 0; i < linear->matrices; i++)
        bytes += py_weight_bytes(linear->weight_dtype, linear->out[i] * linear->in_features) +
                 linear->out[i] * (linear->biased[i] * (int64_t)sizeof(float) + scale_bytes(linear));
    return PyLong_FromLongLong(bytes);
}

/* None; of one matrix a dict; of several a tuple of them. */
static PyObject *get_error(PyObject *self, void *unused) {
    (void)unused;
    const py_linear *linear = map_of(self);
    PyObject *errors = PyTuple_New(linear->matrices);
    for (int64_t i = 0; errors && i < linear->matrices; i++) {
        const fovea_quantize_error *e = &linear->error[i];
        PyObject *error = Py_BuildValue("{sdsdsd}", "max", e->max, "rms", e->rms, "relative", e->relative);
        if (!error || PyTuple_SetItem(errors, i, error) < 0)
            Py_CLEAR(errors);
    }
    PyObject *result = !errors                                   ? NULL
                       : !linear->error[0].struct_size           ? Py_NewRef(Py_None)
                       : linear->matrices > 1 || linear->several ? Py_NewRef(errors)
                                                                 : Py_NewRef(PyTuple_GetItem(errors, 0));
    Py_XDECREF(errors);
    return result;
}

static PyObject *repr(PyObject *self) {
    const py_linear *linear = map_of(self);
    const char *activation = py_activation_name(linear->activation);
    PyObject *out = out_features(self, NULL);
    PyObject *text =
        !out ? NULL
             : PyUnicode_FromFormat("<fovea.Linear %lld to %S, %s, weights %s%s%s, arithmetic %s>",
                                    (long long)linear->in_features, out, py_dtype_name(linear->dtype),
                                    py_dtype_name(linear->weight_dtype), activation ? ", activation " : "",
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
    {"arithmetic", get_word, NULL, "as asked for; 'default' of quantised weights is 'q16'", (void *)WORD_ARITHMETIC},
    {"quant", get_word, NULL, "how weights were quantised, or of which kind they were given; or None",
     (void *)WORD_QUANT},
    {"error", get_error, NULL,
     "of quant=: {'max', 'rms', 'relative'} of the numbers that quantised weights stand for, less the given ones "
     "(relative: rms / that of the given ones); a tuple of them of several matrices; else None",
     NULL},
    {"has_bias", get_has_bias, NULL, "a tuple of bools, one for each matrix (silu_gated: two)", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of weights, their scales and biases, without what fills panels up", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const char doc[] =
    "Linear(weight, bias=None, *, activation=None, layout='out_in', scale=None, heads=None, dtype=None, "
    "arithmetic=None, scales=None,\nquant=None)\n--\n\n"
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
    "scales: of a weight of integers, [out] of float32: element [o, i] is scales[o] times its integer, rounded, and "
    "the "
    "result is that of "
    "float32\n"
    "on these numbers, in a quarter of the memory; dtype is then float32 by default.\n"
    "quant: weights of floats are quantised as they are packed: 'int8' (a scale for each output channel), 'int4' "
    "(groups "
    "of 32, float16\n"
    "scales), or GGUF's 'q8_0', 'q4_0', 'q4_1' (blocks of 32) and 'q4_k' (256), which in must be a multiple of; the "
    "attribute error\n"
    "says what that costs. Linear.quantized() takes weights that are quantised already. arithmetic: of quantised "
    "weights 'q16' (the\n"
    "default), 'q8' or 'exact'.\n"
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

static PyType_Slot slots[] = {{Py_tp_new, (void *)py_linear_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_call, (void *)py_linear_call},
                              {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Linear", sizeof(py_linear), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_linear(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->linear_type); }
