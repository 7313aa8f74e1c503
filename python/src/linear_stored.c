/* Weights given back: fovea.Linear.unpack(), and what pickle stores of a Linear. That is each matrix as it was packed,
 * in rows, which every machine packs anew: (type, in, out, weight, bias or None), of integers also scales and, of
 * integers in groups, (group_size, type of scales, zeros or None, groups of channels or None). Numbers are bytes. */
#include "linear_weights.h"
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int py_contradicts(const char *kind) {
    return py_raise(PyExc_ValueError, "the stored fovea.%s contradicts itself", kind);
}

int py_linear_part_of(PyObject *number, int64_t count, int64_t *part) {
    if (py_integer(number, "part", part) < 0)
        return -1;
    if (*part < 0 || *part >= count)
        return py_raise(PyExc_ValueError, "part must be from 0 to %lld, not %lld", (long long)count - 1,
                        (long long)*part);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ matrices -- */

static PyObject *bytes_of(int64_t size) { return PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size); }

static void *at(PyObject *bytes) { return bytes ? PyBytes_AsString(bytes) : NULL; }

static int64_t scale_bytes(fovea_dtype dtype) { return (int64_t)py_dtype_size(py_float_dtype(dtype)); }

/* "NN" of a matrix of integers: its scales, and None or what else its groups have; -1 with an exception. */
static int store_scales(const fovea_linear *linear, int64_t part, int64_t in, int64_t out, PyObject **scales,
                        PyObject **more) {
    fovea_quantization q;
    fovea_quantization_init(&q);
    *more = NULL;
    if (fovea_linear_unpack_groups(linear, part, &q, NULL, NULL, NULL) != FOVEA_OK) { /* a scale for each channel */
        if ((*scales = bytes_of(out * (int64_t)sizeof(float))))
            (void)fovea_linear_unpack_scales(linear, part, at(*scales));
        *more = Py_NewRef(Py_None);
        return *scales ? 0 : -1;
    }
    const int64_t groups = q.group_size ? in / q.group_size : 1;
    PyObject *zeros = bytes_of(out * groups), *group_of = bytes_of(in * (int64_t)sizeof(int32_t));
    *scales = bytes_of(out * groups * scale_bytes(q.scale_dtype));
    if (*scales && zeros && group_of) {
        (void)fovea_linear_unpack_groups(linear, part, &q, at(*scales), at(zeros), at(group_of));
        *more = Py_BuildValue("(LiOO)", (long long)q.group_size, (int)q.scale_dtype, q.zeros ? zeros : Py_None,
                              q.group_of ? group_of : Py_None);
    }
    Py_XDECREF(zeros);
    Py_XDECREF(group_of);
    return *more ? 0 : -1;
}

PyObject *py_matrix_store(const fovea_linear *linear, int64_t part, int64_t in, int64_t out, bool biased) {
    fovea_dtype dtype;
    (void)fovea_linear_unpack(linear, part, NULL, NULL, &dtype);
    PyObject *weight = bytes_of(py_weight_bytes(dtype, in * out)), *scales = NULL, *more = NULL;
    PyObject *bias = biased ? bytes_of(out * (int64_t)sizeof(float)) : Py_NewRef(Py_None);
    if (weight && bias) {
        float *b = biased ? at(bias) : NULL;
        PyThreadState *released = PyEval_SaveThread();
        (void)fovea_linear_unpack(linear, part, at(weight), b, NULL);
        PyEval_RestoreThread(released);
    }
    if (!py_dtype_scaled(dtype))
        return Py_BuildValue("(iLLNN)", (int)dtype, (long long)in, (long long)out, weight, bias);
    if (store_scales(linear, part, in, out, &scales, &more) == 0)
        return Py_BuildValue("(iLLNNNN)", (int)dtype, (long long)in, (long long)out, weight, bias, scales, more);
    Py_XDECREF(weight);
    Py_XDECREF(bias);
    Py_XDECREF(scales);
    return NULL;
}

static bool is_bytes(PyObject *value, int64_t size) {
    return PyBytes_Check(value) && PyBytes_Size(value) == (Py_ssize_t)size;
}

/* Reads what store_scales() wrote. more NULL: of an older version. */
static int restore_scales(PyObject *scales, PyObject *more, const char *kind, const fovea_matrix *weight,
                          fovea_quantization *q) {
    long long group_size = 0;
    int dtype = FOVEA_DTYPE_F32;
    PyObject *zeros = Py_None, *group_of = Py_None;
    const bool grouped = more && more != Py_None;
    if (grouped && (!PyTuple_Check(more) || !PyArg_ParseTuple(more, "LiOO", &group_size, &dtype, &zeros, &group_of)))
        return PyErr_Occurred() ? -1 : py_contradicts(kind);
    const bool known = py_dtype_known(dtype) && !py_dtype_quantized((fovea_dtype)dtype);
    if (!known || group_size < 0 || (group_size > 0 && weight->in % group_size != 0))
        return py_contradicts(kind);
    const int64_t groups = group_size ? weight->in / group_size : 1;
    if (!is_bytes(scales, groups * weight->out * scale_bytes((fovea_dtype)dtype)) ||
        (zeros != Py_None && !is_bytes(zeros, groups * weight->out)) ||
        (group_of != Py_None && !is_bytes(group_of, weight->in * (int64_t)sizeof(int32_t))))
        return py_contradicts(kind);
    fovea_quantization_init(q);
    q->group_size = group_size;
    q->scale_dtype = (fovea_dtype)dtype;
    if (group_size == 0 && dtype == FOVEA_DTYPE_F32)
        q->scales = at(scales);
    else
        q->group_scales = at(scales);
    q->zeros = zeros == Py_None ? NULL : at(zeros);
    q->group_of = group_of == Py_None ? NULL : at(group_of);
    return 0;
}

int py_matrix_restore(PyObject *matrix, const char *kind, fovea_quantization *quantization, fovea_linear_part *part) {
    int dtype;
    long long in, out;
    PyObject *weight, *bias, *scales = NULL, *more = NULL;
    if (!PyTuple_Check(matrix))
        return py_contradicts(kind);
    if (!PyArg_ParseTuple(matrix, "iLLSO|SO", &dtype, &in, &out, &weight, &bias, &scales, &more))
        return -1;
    const bool scaled = py_dtype_scaled((fovea_dtype)dtype);
    if (!py_dtype_known(dtype) || scaled != (scales != NULL) || (scaled && !quantization) || in < 1 || out < 1 ||
        in > INT64_MAX / 64 / out || in % py_weight_block((fovea_dtype)dtype) != 0 ||
        !is_bytes(weight, py_weight_bytes((fovea_dtype)dtype, in * out)) ||
        (bias != Py_None && !is_bytes(bias, out * (int64_t)sizeof(float))))
        return py_contradicts(kind);
    *part = (fovea_linear_part){.weight = fovea_matrix_out_in(PyBytes_AsString(weight), (fovea_dtype)dtype, out, in),
                                .bias = bias == Py_None ? NULL : PyBytes_AsString(bias),
                                .bias_dtype = FOVEA_DTYPE_F32};
    if (!scaled)
        return 0;
    part->weight.quantization = quantization;
    return restore_scales(scales, more, kind, &part->weight, quantization);
}

/* -------------------------------------------------------------------------------------------------------- unpack -- */

/* The numbers that quantized weights stand for. 0, or -1 with an exception. */
static int dequantize(const py_linear *linear, int64_t part, float *to) {
    fovea_quantization quantization;
    fovea_linear_part rows;
    PyObject *stored = py_matrix_store(linear->library, part, linear->in_features, linear->out[part], false);
    int status = stored ? py_matrix_restore(stored, "Linear", &quantization, &rows) : -1;
    if (status == 0) {
        PyThreadState *released = PyEval_SaveThread();
        const fovea_status found = fovea_dequantize(linear->context->library, &rows.weight, to);
        PyEval_RestoreThread(released);
        status = py_checked(found);
    }
    Py_XDECREF(stored);
    return status;
}

static int open_vector(py_core *core, PyObject *given, const char *name, int64_t size, py_array *array) {
    const int status = py_given(core, given, name, FOVEA_DTYPE_F32, 1, &size, array);
    if (status == 0 && array->data && size > 1 && array->stride[0] != 1)
        return py_raise(PyExc_ValueError, "%s is not contiguous", name);
    return status;
}

PyObject *py_linear_unpack(PyObject *self, PyObject *args, PyObject *keywords) {
    const py_linear *linear = (const py_linear *)self;
    py_core *core = py_core_of_object(self);
    PyObject *weight, *bias = Py_None, *number = NULL, *scales = Py_None;
    int64_t part = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$OO:unpack", py_linear_unpack_names, &weight, &bias, &number,
                                     &scales) ||
        (number && py_linear_part_of(number, linear->matrices, &part) < 0))
        return NULL;
    const int64_t out = linear->out[part], in = linear->in_features;
    fovea_dtype dtype = linear->weight_dtype;
    py_array w = {0}, b = {0}, c = {0};
    bool numbers = false;
    if (py_dtype_quantized(dtype)) { /* as numbers or as they are? */
        if (py_array_open_out(core, weight, "weight", &w) < 0)
            return NULL;
        numbers = w.dtype == PY_F32;
        py_array_close(&w);
        w = (py_array){0};
    }
    if (numbers)
        dtype = FOVEA_DTYPE_F32;
    const int64_t shape[2] = {out,
                              dtype == FOVEA_DTYPE_I8 || !py_dtype_quantized(dtype) ? in : py_weight_bytes(dtype, in)};
    int status = py_given(core, weight, "weight", dtype, 2, shape, &w);
    if (status == 0 && ((w.shape[1] > 1 && w.stride[1] != 1) || (w.shape[0] > 1 && w.stride[0] != w.shape[1])))
        status = py_raise(PyExc_ValueError, "weight is not contiguous");
    if (status == 0 && bias != Py_None)
        status = open_vector(core, bias, "bias", out, &b);
    if (status == 0 && scales != Py_None && (!py_dtype_scaled(linear->weight_dtype) || linear->group_size))
        status = py_raise(PyExc_TypeError, "the packed weights are %s, which have no scales%s",
                          py_dtype_name(linear->weight_dtype), linear->group_size ? " of output channels" : "");
    if (status == 0 && scales != Py_None)
        status = open_vector(core, scales, "scales", out, &c);
    if (status == 0 && numbers)
        status = dequantize(linear, part, w.data);
    if (status == 0) {
        PyThreadState *released = PyEval_SaveThread();
        (void)fovea_linear_unpack(linear->library, part, numbers ? NULL : w.data, b.data, NULL);
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

/* -------------------------------------------------------------------------------------------------------- pickle -- */

PyObject *py_linear_reduce(PyObject *self, PyObject *none) {
    (void)none;
    const py_linear *linear = (const py_linear *)self;
    PyObject *heads = PyTuple_New(linear->matrices), *matrices = PyTuple_New(linear->matrices),
             *errors = PyTuple_New(linear->matrices);
    for (int64_t i = 0; heads && matrices && errors && i < linear->matrices; i++) {
        const fovea_quantize_stats *e = &linear->error[i];
        PyTuple_SetItem(heads, i, PyLong_FromLongLong(linear->heads[i]));
        PyTuple_SetItem(errors, i,
                        e->struct_size ? Py_BuildValue("(ddd)", e->max, e->rms, e->relative) : Py_NewRef(Py_None));
        PyObject *matrix = py_matrix_store(linear->library, i, linear->in_features, linear->out[i], linear->biased[i]);
        if (!matrix)
            Py_CLEAR(matrices);
        else
            PyTuple_SetItem(matrices, i, matrix);
    }
    return py_reduce_to("Linear", "_from_state",
                        Py_BuildValue("(iiiiNNzN)", (int)linear->dtype, (int)linear->activation,
                                      (int)linear->arithmetic, linear->several, heads, matrices, linear->quant,
                                      errors));
}

static int restore_error(PyObject *errors, Py_ssize_t i, fovea_quantize_stats *error) {
    PyObject *stored = errors && i < PyTuple_Size(errors) ? PyTuple_GetItem(errors, i) : Py_None;
    if (stored == Py_None)
        return 0;
    fovea_quantize_stats_init(error);
    return PyTuple_Check(stored) && PyArg_ParseTuple(stored, "ddd", &error->max, &error->rms, &error->relative)
               ? 0
               : py_contradicts("Linear");
}

PyObject *py_linear_from_state(PyObject *type, PyObject *args) {
    int dtype, activation, arithmetic, several;
    const char *quant = NULL;
    PyObject *heads, *matrices, *errors = NULL;
    if (!PyArg_ParseTuple(args, "iiiiO!O!|zO!", &dtype, &activation, &arithmetic, &several, &PyTuple_Type, &heads,
                          &PyTuple_Type, &matrices, &quant, &PyTuple_Type, &errors))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(matrices), least = py_activation_gates((fovea_activation)activation) ? 2 : 1;
    fovea_linear_part parts[PY_LINEAR_PARTS];
    fovea_quantization quantization[PY_LINEAR_PARTS];
    int status = count < 1 || count > PY_LINEAR_PARTS || PyTuple_Size(heads) != count || (!several && count != least)
                     ? py_contradicts("Linear")
                     : 0;
    py_linear *self = status == 0 ? (py_linear *)py_object_new((PyTypeObject *)type) : NULL;
    for (Py_ssize_t i = 0; self && status == 0 && i < count; i++) {
        status = py_matrix_restore(PyTuple_GetItem(matrices, i), "Linear", &quantization[i], &parts[i]);
        self->out[i] = status == 0 ? parts[i].weight.out : 1;
        self->heads[i] = PyLong_AsLongLong(PyTuple_GetItem(heads, i));
        if (status == 0 && (self->heads[i] < 0 || (self->heads[i] > 0 && self->out[i] % self->heads[i] != 0)))
            status = PyErr_Occurred() ? -1 : py_contradicts("Linear");
        if (status == 0)
            status = restore_error(errors, i, &self->error[i]);
    }
    if (self && status == 0) {
        self->dtype = (fovea_dtype)dtype;
        self->activation = (fovea_activation)activation;
        self->arithmetic = (fovea_arithmetic)arithmetic;
        self->in_features = parts[0].weight.in;
        self->count = count;
        self->several = several != 0;
        self->quant = !quant ? NULL : py_quant_known(quant) ? py_quant_known(quant) : py_kind_known(quant);
        status = py_linear_pack(self, parts);
    }
    if (self && status == 0)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}
