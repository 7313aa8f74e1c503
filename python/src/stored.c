/* fovea.MultiHead as pickle stores it: its weights, each as linear_stored.c has it, and its descriptions. */
#include "linear_weights.h"
#include "multihead.h"
#include "objects.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    if (py_checked(status) < 0)
        return -1;
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
    PyObject *matrix = lost ? NULL : py_matrix_store(map, part, in, out, true);
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
    return py_reduce_to("MultiHead", "_from_state",
                        Py_BuildValue("(NNNN)", PyBytes_FromStringAndSize((const char *)&desc, sizeof desc),
                                      PyBytes_FromStringAndSize((const char *)&attention, sizeof attention), weights,
                                      norms));
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

/* Weights for fovea_mha_create(). merged: room for those of each head; quantization: of each weight. */
static int gather(const py_multihead *self, PyObject *stored, PyObject *norms, fovea_mha_weights *w,
                  fovea_matrix *merged, fovea_quantization *quantization) {
    fovea_matrix *to[WEIGHTS] = {&w->q, &w->k, &w->v, &w->o};
    const void **bias[WEIGHTS] = {&w->q_bias, &w->k_bias, &w->v_bias, &w->o_bias}, **norm[2] = {&w->q_norm, &w->k_norm};
    const int64_t heads = self->attention.q_heads, channels = self->attention.head_dim;
    for (int i = 0; i < WEIGHTS; i++) {
        fovea_linear_part part;
        if (PyTuple_GetItem(stored, i) == Py_None)
            continue;
        if (py_matrix_restore(PyTuple_GetItem(stored, i), "MultiHead", &quantization[i], &part) < 0)
            return -1;
        const fovea_matrix m = part.weight;
        if (self->desc.form != FOVEA_MHA_MERGED || i > K) {
            *to[i] = m;
            *bias[i] = part.bias;
            continue;
        }
        if (m.out % heads != 0)
            return py_contradicts("MultiHead");
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
            return py_contradicts("MultiHead");
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
    fovea_quantization quantization[WEIGHTS];
    fovea_mha_weights_init(&given);
    fovea_mha_desc_init(&self->desc);
    fovea_attention_desc_init(&self->attention);
    int status = read_struct(desc, &self->desc, MHA_DESC_0_3, sizeof self->desc) < 0 ||
                         read_struct(attention, &self->attention, ATTENTION_DESC_0_3, sizeof self->attention) < 0
                     ? -1
                     : 0;
    const int64_t heads = self->attention.q_heads;
    if (status == 0 && (heads < 1 || heads > 1 << 20 || PyTuple_Size(weights) != WEIGHTS || PyTuple_Size(norms) != 2))
        status = py_contradicts("MultiHead");
    fovea_matrix *merged = status == 0 ? malloc((size_t)heads * sizeof *merged) : NULL;
    if (status == 0 && !merged)
        PyErr_NoMemory();
    if (merged && gather(self, weights, norms, &given, merged, quantization) == 0 &&
        py_multihead_create(self, &given) == 0) {
        free(merged);
        return (PyObject *)self;
    }
    free(merged);
    Py_DECREF((PyObject *)self);
    return NULL;
}
