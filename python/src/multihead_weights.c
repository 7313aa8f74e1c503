/* Opening the weights of fovea.MultiHead(): arrays in their layouts, with biases (multihead_weights.h). */
#include "multihead_weights.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* [heads, out, in], or [heads, in, out] if in_first, as one matrix whose columns (of o: rows) are the heads'. */
static int open_heads(py_making *m, int i, py_array *array) {
    if (py_array_open(m->core, m->matrices[i], py_mha_places[i].name, array) < 0)
        return -1;
    m->opened++;
    fovea_dtype dtype;
    if (py_array_float(array, py_mha_places[i].name, &dtype) < 0)
        return -1;
    const int in = m->in_first ? 1 : 2, out = 3 - in;
    *py_making_matrix(m, i) = (fovea_matrix){.data = array->data,
                                             .dtype = dtype,
                                             .in = array->shape[in] * (i == PY_W_O ? array->shape[0] : 1),
                                             .out = array->shape[out] * (i == PY_W_O ? 1 : array->shape[0]),
                                             .in_stride = array->stride[in],
                                             .out_stride = array->stride[out]};
    memcpy((char *)&m->weights + py_mha_places[i].head_stride, &array->stride[0], sizeof array->stride[0]);
    return 0;
}

static int dimensions(PyObject *object) {
    PyObject *ndim = PyObject_GetAttrString(object, "ndim");
    const long count = ndim ? PyLong_AsLong(ndim) : 2;
    Py_XDECREF(ndim);
    PyErr_Clear();
    return (int)count;
}

/* A bias or norm, all of which are of one type. */
static int open_vector(py_making *m, PyObject *object, const char *name, int64_t size, size_t to) {
    py_array *array = &m->arrays[m->opened];
    fovea_dtype dtype;
    if (object == Py_None)
        return 0;
    if (py_vector_open(m->core, object, name, size, array, &dtype) < 0)
        return -1;
    m->opened++;
    const void *data = array->data;
    if (m->floats && dtype != FOVEA_DTYPE_F32) { /* as the biases of a fovea.Linear are */
        float *wide = m->rows[m->taken] = malloc((size_t)size * sizeof *wide + 1);
        if (!wide) {
            PyErr_NoMemory();
            return -1;
        }
        m->taken++;
        (void)fovea_convert(size, data, dtype, wide, FOVEA_DTYPE_F32);
        data = wide;
        dtype = FOVEA_DTYPE_F32;
    }
    if (m->typed && dtype != m->weights.bias_dtype)
        return py_raise(PyExc_TypeError, "%s is %s, another bias or norm %s: they must be of one type", name,
                        py_dtype_name(dtype), py_dtype_name(m->weights.bias_dtype));
    m->weights.bias_dtype = dtype;
    m->typed = true;
    m->biased = true;
    memcpy((char *)&m->weights + to, &data, sizeof data);
    return 0;
}

static int open_weight(py_making *m, int i) {
    py_array *array = &m->arrays[m->opened];
    if (m->matrices[i] == Py_None) {
        if (m->biases[i] != Py_None)
            return py_raise(PyExc_ValueError, "%s is given without %s", py_mha_places[i].bias_name,
                            py_mha_places[i].name);
        return 0;
    }
    if (m->quant != Py_None && i < PY_W_OUTER_Q && py_mha_places[i].head_stride && dimensions(m->matrices[i]) == 3)
        return py_raise(PyExc_ValueError, "%s is a matrix for each head: quantization takes one matrix of all heads",
                        py_mha_places[i].name);
    if (py_making_is_linear(m, i))
        return py_making_linear(m, i);
    if (py_mha_places[i].head_stride && dimensions(m->matrices[i]) == 3) {
        if (open_heads(m, i, array) < 0)
            return -1;
    } else {
        if (py_matrix_open(m->core, m->matrices[i], py_mha_places[i].name, m->in_first, false, array,
                           py_making_matrix(m, i)) < 0)
            return -1;
        m->opened++;
    }
    m->types[i] = py_making_matrix(m, i)->dtype;
    return open_vector(m, m->biases[i], py_mha_places[i].bias_name, py_making_matrix(m, i)->out, py_mha_places[i].bias);
}

int py_making_norms(py_making *m, int64_t head_dim) {
    return open_vector(m, m->norms[0], "q_norm", head_dim, offsetof(fovea_mha_weights, q_norm)) < 0 ||
                   open_vector(m, m->norms[1], "k_norm", head_dim, offsetof(fovea_mha_weights, k_norm)) < 0
               ? -1
               : 0;
}

/* A tuple of matrices [q_features, k_features], one for each head, whatever the layout of the others. */
static int open_merged(py_making *m) {
    if (m->merged == Py_None)
        return 0;
    if (!PyTuple_Check(m->merged))
        return py_raise(PyExc_TypeError, "merged must be a tuple of matrices, one for each head");
    if (PyTuple_Size(m->merged) != m->heads || m->heads > PY_MERGED)
        return py_raise(PyExc_ValueError, "merged has %zd matrices for %lld heads (at most %d are possible)",
                        PyTuple_Size(m->merged), m->heads, PY_MERGED);
    for (int i = 0; i < (int)m->heads; i++) {
        if (py_matrix_open(m->core, PyTuple_GetItem(m->merged, i), "merged", true, false, &m->arrays[m->opened],
                           &m->merged_matrices[i]) < 0)
            return -1;
        m->opened++;
    }
    m->weights.merged = m->merged_matrices;
    return 0;
}

int py_making_open(py_making *m) {
    fovea_mha_weights_init(&m->weights);
    int status = py_matrix_layout(m->layout, &m->in_first);
    if (status == 0 && m->quant == Py_None && py_making_integers(m))
        status =
            py_raise(PyExc_ValueError, "arithmetic 'q16' and 'q8' are for quantization=: a fovea.Linear has its own");
    for (int i = 0; status == 0 && i < PY_W_COUNT; i++)
        status = open_weight(m, i);
    return status < 0 ? -1 : open_merged(m);
}

void py_making_close(py_making *m) {
    for (int i = 0; i < m->opened; i++)
        py_array_close(&m->arrays[i]);
    for (int i = 0; i < PY_W_COUNT; i++)
        Py_XDECREF(m->stored[i]);
    for (int i = 0; i < m->taken; i++)
        free(m->rows[i]);
}
