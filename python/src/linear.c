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
    {"apply", (PyCFunction)(void (*)(void))py_linear_apply, METH_FASTCALL | METH_KEYWORDS, py_linear_apply_doc},
    {"unpack", (PyCFunction)(void (*)(void))py_linear_unpack, METH_VARARGS | METH_KEYWORDS, py_linear_unpack_doc},
    {"quantized", (PyCFunction)(void (*)(void))py_linear_quantized, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     py_linear_quantized_doc},
    {"_from_state", py_linear_from_state, METH_VARARGS | METH_CLASS, NULL},
    {"__reduce__", py_linear_reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {"describe", describe, METH_NOARGS, py_linear_describe_doc},
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
        const fovea_quantize_stats *e = &linear->error[i];
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
    {"arithmetic", get_word, NULL, "as asked for; 'default' of quantized weights is 'q16'", (void *)WORD_ARITHMETIC},
    {"quantization", get_word, NULL, "how weights were quantized, or of which kind they were given; or None",
     (void *)WORD_QUANT},
    {"error", get_error, NULL,
     "of quantization=: {'max', 'rms', 'relative'} of the numbers that quantized weights stand for, less the given "
     "ones "
     "(relative: rms / that of the given ones); a tuple of them of several matrices; else None",
     NULL},
    {"has_bias", get_has_bias, NULL, "a tuple of bools, one for each matrix (silu_gated: two)", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of weights, their scales and biases, without what fills panels up", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_new, (void *)py_linear_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_call, (void *)py_linear_call},
                              {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_linear_doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Linear", sizeof(py_linear), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_linear(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->linear_type); }
