/* Weights given back: fovea.Linear.unpack(), and what pickle stores of Linear and MultiHead. That is each matrix as
 * it was packed, in rows, which every machine packs anew: (type, in, out, weight, bias or None), the last two as
 * bytes. */
#include "linear.h"
#include "multihead.h"
#include "objects.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int py_linear_part_of(PyObject *number, int64_t count, int64_t *part) {
    if (py_integer(number, "part", part) < 0)
        return -1;
    if (*part < 0 || *part >= count)
        return py_raise(PyExc_ValueError, "part must be from 0 to %lld, not %lld", (long long)count - 1,
                        (long long)*part);
    return 0;
}

const char py_linear_unpack_doc[] =
    "unpack(weight, bias=None, *, part=0, scales=None)\n--\n\n"
    "Writes the packed weights of a matrix into weight, [out, in] and contiguous, of weight_dtype: the bits that were "
    "packed. bias: [out],\n"
    "float32, likewise; -0.0 where there is none (has_bias). part: of several matrices; of silu_gated 0 is the gate. "
    "scales: [out],\n"
    "float32, of integers.";

PyObject *py_linear_unpack(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"weight", "bias", "part", "scales", NULL};
    const py_linear *linear = (const py_linear *)self;
    py_core *core = py_core_of_object(self);
    PyObject *weight, *bias = Py_None, *number = NULL, *scales = Py_None;
    int64_t part = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$OO:unpack", names, &weight, &bias, &number, &scales) ||
        (number && py_linear_part_of(number, linear->matrices, &part) < 0))
        return NULL;
    const int64_t out = linear->out[part], shape[2] = {out, linear->in_features};
    py_array w = {0}, b = {0}, c = {0};
    int status = py_given(core, weight, "weight", linear->weight_dtype, 2, shape, &w);
    if (status == 0 && ((w.shape[1] > 1 && w.stride[1] != 1) || (w.shape[0] > 1 && w.stride[0] != w.shape[1])))
        status = py_raise(PyExc_ValueError, "weight is not contiguous");
    if (status == 0 && bias != Py_None)
        status = py_given(core, bias, "bias", FOVEA_DTYPE_F32, 1, &out, &b);
    if (status == 0 && b.data && out > 1 && b.stride[0] != 1)
        status = py_raise(PyExc_ValueError, "bias is not contiguous");
    if (status == 0 && scales != Py_None && !py_dtype_scaled(linear->weight_dtype))
        status = py_raise(PyExc_TypeError, "the packed weights are %s, which have no scales",
                          py_dtype_name(linear->weight_dtype));
    if (status == 0 && scales != Py_None)
        status = py_given(core, scales, "scales", FOVEA_DTYPE_F32, 1, &out, &c);
    if (status == 0 && c.data && out > 1 && c.stride[0] != 1)
        status = py_raise(PyExc_ValueError, "scales is not contiguous");
    if (status == 0) {
        PyThreadState *released = PyEval_SaveThread();
        (void)fovea_linear_unpack(linear->library, part, w.data, b.data, NULL);
        if (c.data)
            (void)fovea_linear_unpack_scales(linear->library, part, c.data);
        PyEval_RestoreThread(released);
    }
    py_array_close(&w);
    py_array_close(&b);
    py_array_close(&c);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------------------------ matrices -- */

static PyObject *matrix_of(const fovea_linear *linear, int64_t part, int64_t in, int64_t out, bool biased) {
    fovea_dtype dtype;
    (void)fovea_linear_unpack(linear, part, NULL, NULL, &dtype);
    PyObject *weight = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)py_weight_bytes(dtype, in * out));
    PyObject *bias =
        biased ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(out * (int64_t)sizeof(float))) : Py_NewRef(Py_None);
    if (weight && bias) {
        char *w = PyBytes_AsString(weight), *b = biased ? PyBytes_AsString(bias) : NULL;
        PyThreadState *released = PyEval_SaveThread();
        (void)fovea_linear_unpack(linear, part, w, (float *)(void *)b, NULL);
        PyEval_RestoreThread(released);
    }
    if (!py_dtype_scaled(dtype))
        return Py_BuildValue("(iLLNN)", (int)dtype, (long long)in, (long long)out, weight, bias);
    PyObject *scales = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(out * (int64_t)sizeof(float)));
    if (scales)
        (void)fovea_linear_unpack_scales(linear, part, (float *)(void *)PyBytes_AsString(scales));
    return Py_BuildValue("(iLLNNN)", (int)dtype, (long long)in, (long long)out, weight, bias, scales);
}

static int contradicts(const char *kind) {
    return py_raise(PyExc_ValueError, "the stored fovea.%s contradicts itself", kind);
}

/* The part is read from the bytes; quantisation: for that of integers, NULL: there is none.
 * 0, or -1 with an exception. */
static int read_matrix(PyObject *matrix, const char *kind, fovea_quantisation *quantisation, fovea_linear_part *part) {
    int dtype;
    long long in, out;
    PyObject *weight, *bias, *scales = NULL;
    if (!PyTuple_Check(matrix))
        return contradicts(kind);
    if (!PyArg_ParseTuple(matrix, "iLLSO|S", &dtype, &in, &out, &weight, &bias, &scales))
        return -1;
    const bool scaled = py_dtype_scaled((fovea_dtype)dtype);
    if (!py_dtype_known(dtype) || scaled != (scales != NULL) || (scaled && !quantisation) || in < 1 || out < 1 ||
        in > INT64_MAX / 64 / out || PyBytes_Size(weight) != py_weight_bytes((fovea_dtype)dtype, in * out) ||
        (scales && PyBytes_Size(scales) != out * (int64_t)sizeof(float)) ||
        (bias != Py_None && (!PyBytes_Check(bias) || PyBytes_Size(bias) != out * (int64_t)sizeof(float))))
        return contradicts(kind);
    *part = (fovea_linear_part){.weight = fovea_matrix_out_in(PyBytes_AsString(weight), (fovea_dtype)dtype, out, in),
                                .bias = bias == Py_None ? NULL : PyBytes_AsString(bias),
                                .bias_dtype = FOVEA_DTYPE_F32};
    if (scaled) {
        fovea_quantisation_init(quantisation);
        quantisation->scales = (const float *)(const void *)PyBytes_AsString(scales);
        part->weight.quantisation = quantisation;
    }
    return 0;
}

/* What a class method "_from_state" makes anew of args, whose reference is stolen. */
static PyObject *reduce_to(const char *kind, PyObject *args) {
    PyObject *arguments = args ? py_arguments(args, NULL) : NULL;
    PyObject *result = arguments ? py_stored("reduce", kind, "_from_state", arguments) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(arguments);
    return result;
}

/* -------------------------------------------------------------------------------------------------------- Linear -- */

PyObject *py_linear_reduce(PyObject *self, PyObject *none) {
    (void)none;
    const py_linear *linear = (const py_linear *)self;
    PyObject *heads = PyTuple_New(linear->matrices), *matrices = PyTuple_New(linear->matrices);
    for (int64_t i = 0; heads && matrices && i < linear->matrices; i++) {
        PyTuple_SetItem(heads, i, PyLong_FromLongLong(linear->heads[i]));
        PyObject *matrix = matrix_of(linear->library, i, linear->in_features, linear->out[i], linear->biased[i]);
        if (!matrix)
            Py_CLEAR(matrices);
        else
            PyTuple_SetItem(matrices, i, matrix);
    }
    return reduce_to("Linear", Py_BuildValue("(iiiiNN)", (int)linear->dtype, (int)linear->activation,
                                             (int)linear->arithmetic, linear->several, heads, matrices));
}

PyObject *py_linear_from_state(PyObject *type, PyObject *args) {
    int dtype, activation, arithmetic, several;
    PyObject *heads, *matrices;
    if (!PyArg_ParseTuple(args, "iiiiO!O!", &dtype, &activation, &arithmetic, &several, &PyTuple_Type, &heads,
                          &PyTuple_Type, &matrices))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(matrices), least = activation == FOVEA_ACTIVATION_SILU_GATED ? 2 : 1;
    fovea_linear_part parts[PY_LINEAR_PARTS];
    fovea_quantisation quantisation[PY_LINEAR_PARTS];
    int status = count < 1 || count > PY_LINEAR_PARTS || PyTuple_Size(heads) != count || (!several && count != least)
                     ? contradicts("Linear")
                     : 0;
    py_linear *self = status == 0 ? (py_linear *)py_object_new((PyTypeObject *)type) : NULL;
    for (Py_ssize_t i = 0; self && status == 0 && i < count; i++) {
        status = read_matrix(PyTuple_GetItem(matrices, i), "Linear", &quantisation[i], &parts[i]);
        self->out[i] = status == 0 ? parts[i].weight.out : 1;
        self->heads[i] = PyLong_AsLongLong(PyTuple_GetItem(heads, i));
        if (status == 0 && (self->heads[i] < 0 || (self->heads[i] > 0 && self->out[i] % self->heads[i] != 0)))
            status = PyErr_Occurred() ? -1 : contradicts("Linear");
    }
    if (self && status == 0) {
        self->dtype = (fovea_dtype)dtype;
        self->activation = (fovea_activation)activation;
        self->arithmetic = (fovea_arithmetic)arithmetic;
        self->in_features = parts[0].weight.in;
        self->count = count;
        self->several = several != 0;
        status = py_linear_pack(self, parts);
    }
    if (self && status == 0)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- MultiHead -- */

enum { Q, K, V, O, WEIGHTS };

int py_multihead_create(py_multihead *self, const fovea_mha_weights *weights) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    self->context = py_context_keep(context);
    self->desc.attention = &self->attention;
    PyThreadState *released = PyEval_SaveThread();
    const fovea_status status = fovea_mha_create(context->library, &self->desc, weights, &self->first);
    PyEval_RestoreThread(released);
    if (status != FOVEA_OK) {
        py_raise_status(status);
        return -1;
    }
    const void *norms[2] = {weights->q_norm, weights->k_norm};
    const int64_t n = self->attention.head_dim;
    for (int i = 0; i < 2; i++)
        if (norms[i] && (!(self->norm[i] = malloc((size_t)n * sizeof(float))) ||
                         fovea_convert(n, norms[i], weights->bias_dtype, self->norm[i], FOVEA_DTYPE_F32) != FOVEA_OK)) {
            PyErr_NoMemory();
            return -1;
        }
    return 0;
}

/* The arithmetic that 'fastest' is here. 0, or -1 with an exception. */
static int resolve(const py_multihead *self, fovea_attention_desc *attention) {
    if (attention->arithmetic != FOVEA_ARITHMETIC_FASTEST)
        return 0;
    py_plan *plan = py_plan_make(self->context, attention);
    if (plan)
        attention->arithmetic = fovea_attention_plan_arithmetic(plan->library);
    py_plan_drop(plan);
    return plan ? 0 : -1;
}

/* Weight i with its bias, -0 where there was none; or None. NULL with ValueError: no constructor takes what it
 * became. */
static PyObject *weight_of(const py_multihead *self, int i) {
    const fovea_mha_form form = self->desc.form;
    const fovea_linear *map;
    int64_t part, in, out;
    (void)fovea_mha_linear(self->first, i, &map, &part, &in, &out);
    const char *lost =
        i == V && !map && form != FOVEA_MHA_TIED && form != FOVEA_MHA_PROJECTED ? "with fold_values" : NULL;
    if (!map && !lost)
        return Py_NewRef(Py_None);
    PyObject *matrix = lost ? NULL : matrix_of(map, part, in, out, true);
    const float *bias = matrix && i <= K ? (const float *)(void *)PyBytes_AsString(PyTuple_GetItem(matrix, 4)) : NULL;
    for (int64_t j = 0; bias && form == FOVEA_MHA_MERGED && j < out; j++)
        if (bias[j] != 0 || !signbit(bias[j]))
            lost = "of form merged with q_bias";
    if (lost) {
        Py_CLEAR(matrix);
        py_raise(PyExc_ValueError, "a MultiHead %s cannot be stored: store its weights, and make it of them again",
                 lost);
    }
    return matrix;
}

PyObject *py_multihead_reduce(PyObject *object, PyObject *none) {
    (void)none;
    const py_multihead *self = (const py_multihead *)object;
    fovea_mha_desc desc = self->desc;
    fovea_attention_desc attention = self->attention;
    if (resolve(self, &attention) < 0)
        return NULL;
    if (desc.form == FOVEA_MHA_FOLDED || desc.form == FOVEA_MHA_FUSED)
        desc.form = FOVEA_MHA_FACTORED;
    desc.fold_values = FOVEA_MHA_FOLD_NEVER;
    desc.biases = 1;
    desc.attention = NULL;
    PyObject *weights = PyTuple_New(WEIGHTS), *norms = PyTuple_New(2);
    for (int i = 0; weights && i < WEIGHTS; i++) {
        PyObject *weight = weight_of(self, i);
        if (!weight)
            Py_CLEAR(weights);
        else
            PyTuple_SetItem(weights, i, weight);
    }
    for (int i = 0; norms && i < 2; i++)
        PyTuple_SetItem(norms, i,
                        self->norm[i]
                            ? PyBytes_FromStringAndSize((const char *)self->norm[i],
                                                        (Py_ssize_t)attention.head_dim * (Py_ssize_t)sizeof(float))
                            : Py_NewRef(Py_None));
    return reduce_to("MultiHead", Py_BuildValue("(NNNN)", PyBytes_FromStringAndSize((const char *)&desc, sizeof desc),
                                                PyBytes_FromStringAndSize((const char *)&attention, sizeof attention),
                                                weights, norms));
}

/* Sizes of the structs of version 0.3. Those of 0.2 were smaller, with fields in another order. */
enum {
    MHA_DESC_0_3 = offsetof(fovea_mha_desc, norm_eps) + sizeof(double),
    ATTENTION_DESC_0_3 = offsetof(fovea_attention_desc, page_keys) + sizeof(int64_t)
};

/* A struct of the library's, with defaults for the fields that an older one lacks. least: its size in 0.3.
 * 0, or -1 with ValueError. */
static int read_struct(PyObject *bytes, void *to, size_t least, size_t size) {
    const size_t stored = (size_t)PyBytes_Size(bytes);
    if (stored < least)
        return py_raise(PyExc_ValueError, "the fovea.MultiHead was stored by version 0.2 of fovea, or is damaged: make "
                                          "it of its weights again");
    if (stored > size)
        return py_raise(PyExc_ValueError, "the fovea.MultiHead was stored by a newer version of fovea");
    memcpy(to, PyBytes_AsString(bytes), stored);
    memcpy(to, &size, sizeof size); /* struct_size is the first field */
    return 0;
}

/* Weights for fovea_mha_create(). merged: room for those of each head. */
static int gather(const py_multihead *self, PyObject *stored, PyObject *norms, fovea_mha_weights *w,
                  fovea_matrix *merged) {
    fovea_matrix *to[WEIGHTS] = {&w->q, &w->k, &w->v, &w->o};
    const void **bias[WEIGHTS] = {&w->q_bias, &w->k_bias, &w->v_bias, &w->o_bias}, **norm[2] = {&w->q_norm, &w->k_norm};
    const int64_t heads = self->attention.q_heads, channels = self->attention.head_dim;
    for (int i = 0; i < WEIGHTS; i++) {
        fovea_linear_part part;
        if (PyTuple_GetItem(stored, i) == Py_None)
            continue;
        if (read_matrix(PyTuple_GetItem(stored, i), "MultiHead", NULL, &part) < 0)
            return -1;
        const fovea_matrix m = part.weight;
        if (self->desc.form != FOVEA_MHA_MERGED || i > K) {
            *to[i] = m;
            *bias[i] = part.bias;
            continue;
        }
        if (m.out % heads != 0)
            return contradicts("MultiHead");
        const int64_t width = m.out / heads; /* columns of head after head: W_i, or, of keys, transposed */
        for (int64_t head = 0; head < heads; head++) {
            const char *at = (const char *)m.data + py_weight_bytes(m.dtype, head * width * m.in);
            merged[head] =
                i == Q ? fovea_matrix_out_in(at, m.dtype, width, m.in) : fovea_matrix_in_out(at, m.dtype, width, m.in);
        }
        w->merged = merged;
    }
    for (int i = 0; i < 2; i++) {
        PyObject *bytes = PyTuple_GetItem(norms, i);
        if (bytes == Py_None)
            continue;
        if (!PyBytes_Check(bytes) || channels < 1 || PyBytes_Size(bytes) / (Py_ssize_t)sizeof(float) != channels)
            return contradicts("MultiHead");
        *norm[i] = PyBytes_AsString(bytes);
    }
    return 0;
}

PyObject *py_multihead_from_state(PyObject *type, PyObject *args) {
    PyObject *desc, *attention, *weights, *norms;
    if (!PyArg_ParseTuple(args, "SSO!O!", &desc, &attention, &PyTuple_Type, &weights, &PyTuple_Type, &norms))
        return NULL;
    py_multihead *self = (py_multihead *)py_object_new((PyTypeObject *)type);
    if (!self)
        return NULL;
    fovea_mha_weights given;
    fovea_mha_weights_init(&given);
    fovea_mha_desc_init(&self->desc);
    fovea_attention_desc_init(&self->attention);
    int status = read_struct(desc, &self->desc, MHA_DESC_0_3, sizeof self->desc) < 0 ||
                         read_struct(attention, &self->attention, ATTENTION_DESC_0_3, sizeof self->attention) < 0
                     ? -1
                     : 0;
    const int64_t heads = self->attention.q_heads;
    if (status == 0 && (heads < 1 || heads > 1 << 20 || PyTuple_Size(weights) != WEIGHTS || PyTuple_Size(norms) != 2))
        status = contradicts("MultiHead");
    fovea_matrix *merged = status == 0 ? malloc((size_t)heads * sizeof *merged) : NULL;
    if (status == 0 && !merged)
        PyErr_NoMemory();
    if (merged && gather(self, weights, norms, &given, merged) == 0 && py_multihead_create(self, &given) == 0) {
        free(merged);
        return (PyObject *)self;
    }
    free(merged);
    Py_DECREF((PyObject *)self);
    return NULL;
}
