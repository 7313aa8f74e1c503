/* Making fovea.Linear: reads the arguments, opens the matrices, packs them. */
#include "arithmetic.h"
#include "keywords.h"
#include "linear_weights.h"
#include "objects.h"

#include <stdlib.h>

static int is_list(PyObject *value) { return PyList_Check(value) || PyTuple_Check(value); }

/* Item i of a list, or the value itself: borrowed, NULL for None. -1 with an exception if the list has another
 * length. */
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

int py_activation_of(PyObject *word, fovea_activation *activation) {
    const char *words[32];
    const fovea_activation_facts *facts;
    int count = 0;
    *activation = FOVEA_ACTIVATION_NONE;
    if (word == Py_None)
        return 0;
    while (count < 32 && (facts = fovea_activation_info((fovea_activation)(count + 1))))
        words[count++] = facts->name;
    const int place = py_word(word, "activation", "None", words, count);
    *activation = (fovea_activation)(place + 1);
    return place < 0 ? -1 : 0;
}

bool py_activation_gates(fovea_activation activation) {
    const fovea_activation_facts *facts = fovea_activation_info(activation);
    return facts && facts->gate != activation;
}

const char *py_activation_name(fovea_activation activation) {
    return activation ? fovea_activation_info(activation)->name : NULL;
}

int py_linear_lists(py_linear *linear, PyObject *weight) {
    linear->several = is_list(weight);
    const Py_ssize_t count = linear->several ? PySequence_Size(weight) : 1;
    if (count < 1 || count > PY_LINEAR_PARTS)
        return py_raise(PyExc_ValueError, "weight is a list of %zd matrices: from 1 to %d are possible", count,
                        PY_LINEAR_PARTS);
    linear->count = count;
    return 0;
}

int py_hold_list(PyObject **value, PyObject **held) {
    *held = NULL;
    if (!*value || !PyList_Check(*value))
        return 0;
    *held = *value = PySequence_Tuple(*value);
    return *held ? 0 : -1;
}

/* Frees all, whatever was opened. */
static void close_weights(py_weights *weights) {
    for (int64_t i = 0; i < PY_LINEAR_PARTS; i++) {
        for (int j = 0; j < weights[i].opened; j++)
            py_array_close(&weights[i].arrays[j]);
        free(weights[i].memory);
        free(weights[i].groups);
    }
}

int py_weights_bias(py_core *core, py_linear *linear, int64_t i, PyObject *bias, PyObject *heads, py_weights *weights) {
    fovea_linear_part *part = weights->part;
    const int64_t out = linear->out[i] = part->weight.out;
    if (bias) {
        py_array *array = &weights->arrays[weights->opened];
        if (py_vector_open(core, bias, "bias", out, array, &part->bias_dtype) < 0)
            return -1;
        weights->opened++;
        part->bias = array->data;
    }
    if (heads && py_integer(heads, "heads", &linear->heads[i]) < 0)
        return -1;
    if (heads && (linear->heads[i] < 1 || out % linear->heads[i] != 0))
        return py_raise(PyExc_ValueError, "%lld channels cannot be %lld heads", (long long)out,
                        (long long)linear->heads[i]);
    return 0;
}

typedef struct making {
    py_linear_making common;
    PyObject *scale, *quant;
    fovea_dtype quant_dtype;
    bool in_first;
} making;

PyObject *py_linear_make(PyTypeObject *type, py_linear_making *m, fovea_activation activation, const char *quant,
                         PyObject **const *lists, int count) {
    PyObject *held[5] = {0};
    py_linear *self = (py_linear *)py_object_new(type);
    if (!self)
        return NULL;
    self->activation = activation;
    self->quant = quant;
    int status = py_linear_lists(self, m->weight);
    for (int i = 0; status == 0 && i < count; i++)
        status = py_hold_list(lists[i], &held[i]);
    if (status == 0)
        status = m->pack(m, self);
    close_weights(m->weights);
    for (int i = 0; i < count; i++)
        Py_XDECREF(held[i]);
    if (status < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* The scales of a matrix that may be of integers. */
static int open_scales(making *m, int64_t i, PyObject *scales) {
    py_weights *weights = &m->common.weights[i];
    fovea_matrix *weight = &weights->part->weight;
    fovea_dtype dtype;
    if (scales && !py_dtype_scaled(weight->dtype))
        return py_raise(PyExc_TypeError, "scales are for weights of integers, not %s", py_dtype_name(weight->dtype));
    if (!scales && py_dtype_scaled(weight->dtype))
        return py_raise(PyExc_TypeError, "weight is %s: scales are needed, a float32 for each output channel",
                        py_dtype_name(weight->dtype));
    if (!scales)
        return 0;
    py_array *array = &weights->arrays[weights->opened];
    if (py_vector_open(m->common.core, scales, "scales", weight->out, array, &dtype) < 0)
        return -1;
    weights->opened++;
    fovea_quantization_init(&weights->quantization);
    weights->quantization.scales = array->data;
    weight->quantization = &weights->quantization;
    return py_array_f32(array, "scales");
}

/* One matrix with what belongs to it. */
static int open_part(making *m, py_linear *linear, int64_t i) {
    PyObject *weight, *bias, *scale, *scales, *heads;
    fovea_linear_part *part = m->common.weights[i].part = &m->common.parts[i];
    if (py_linear_item(linear, m->common.weight, "weight", i, &weight) < 0 ||
        py_linear_item(linear, m->common.bias, "bias", i, &bias) < 0 ||
        py_linear_item(linear, m->scale, "scale", i, &scale) < 0 ||
        py_linear_item(linear, m->common.scales, "scales", i, &scales) < 0 ||
        py_linear_item(linear, m->common.heads, "heads", i, &heads) < 0)
        return -1;
    if (!weight)
        return py_raise(PyExc_TypeError, "weight is None");
    if (py_matrix_open(m->common.core, weight, "weight", m->in_first, true, &m->common.weights[i].arrays[0],
                       &part->weight) < 0)
        return -1;
    m->common.weights[i].opened = 1;
    part->has_scale = scale != NULL;
    part->scale = 1;
    if (open_scales(m, i, scales) < 0 ||
        py_weights_bias(m->common.core, linear, i, bias, heads, &m->common.weights[i]) < 0 ||
        (scale && py_number(scale, "scale", &part->scale) < 0))
        return -1;
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
    const fovea_status status = fovea_linear_create(context->library, &desc, &linear->library);
    linear->workspace_size = fovea_linear_apply_workspace_size(context->library, linear->library);
    fovea_quantization groups;
    fovea_quantization_init(&groups);
    if (status == FOVEA_OK) {
        (void)fovea_linear_unpack(linear->library, 0, NULL, NULL, &linear->weight_dtype);
        (void)fovea_linear_unpack_groups(linear->library, 0, &groups, NULL, NULL, NULL); /* none: the defaults */
    }
    PyEval_RestoreThread(released);
    for (int64_t i = 0; i < linear->count; i++)
        linear->biased[i] = parts[i].bias != NULL;
    if (py_checked(status) < 0)
        return -1;
    linear->group_size = groups.group_size;
    linear->scale_dtype = groups.scale_dtype;
    const fovea_quantization *given = parts[0].weight.quantization;
    linear->has_zeros = given && given->zeros;
    if (py_activation_gates(linear->activation)) { /* two matrices, one result */
        linear->several = 0;
        linear->count = 1;
    }
    return 0;
}

/* Replaces weights of floats by quantized ones. */
static int quantize(making *m, py_linear *linear) {
    for (int64_t i = 0; linear->quant && i < linear->count; i++) {
        if (py_dtype_quantized(m->common.parts[i].weight.dtype))
            return py_raise(PyExc_TypeError, "quantization is for weights of floats, not %s",
                            py_dtype_name(m->common.parts[i].weight.dtype));
        if (m->common.parts[i].has_scale)
            return py_raise(PyExc_ValueError, "quantization and scale do not go together: multiply the weights by it");
        if (py_weights_quantize(&m->common.weights[i], m->quant_dtype, &linear->error[i]) < 0)
            return -1;
    }
    return 0;
}

/* Opens the parts and packs them. */
static int pack(py_linear_making *common, py_linear *linear) {
    making *m = (making *)common;
    for (int64_t i = 0; i < linear->count; i++)
        if (open_part(m, linear, i) < 0)
            return -1;
    linear->in_features = m->common.parts[0].weight.in;
    linear->dtype = m->common.parts[0].weight.dtype;
    if (py_dtype_quantized(linear->dtype))
        linear->dtype = FOVEA_DTYPE_F32;
    if (py_float_of(m->common.dtype, &linear->dtype) < 0 || quantize(m, linear) < 0)
        return -1;
    bool bf16 = linear->dtype == FOVEA_DTYPE_BF16, quantized = true;
    for (int64_t i = 0; i < linear->count; i++) {
        bf16 = bf16 && m->common.parts[i].weight.dtype == FOVEA_DTYPE_BF16 && !m->common.parts[i].has_scale;
        quantized = quantized && py_dtype_quantized(m->common.parts[i].weight.dtype) && !m->common.parts[i].has_scale;
    }
    const int status = quantized ? py_arithmetic_of_weights(m->common.arithmetic, &linear->arithmetic)
                                 : py_arithmetic_choose(m->common.arithmetic, bf16, &linear->arithmetic);
    return status < 0 ? -1 : py_linear_pack(linear, m->common.parts);
}

PyObject *py_linear_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    making m = {.common = {.core = PyType_GetModuleState(type), .pack = pack}};
    py_linear_making *c = &m.common;
    const char *layout = "out_in", *quant;
    PyObject *activation_name = Py_None;
    fovea_activation activation;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$OsOOOOOO:Linear", py_linear_names, &c->weight, &c->bias,
                                     &activation_name, &layout, &m.scale, &c->heads, &c->dtype, &c->arithmetic,
                                     &c->scales, &m.quant))
        return py_wrong_arguments("Linear", keywords);
    if (py_matrix_layout(layout, &m.in_first) < 0 || py_activation_of(activation_name, &activation) < 0 ||
        py_quant_of(m.quant, &quant, &m.quant_dtype) < 0)
        return NULL;
    PyObject **const lists[] = {&c->weight, &c->bias, &c->scales};
    return py_linear_make(type, c, activation, quant, lists, 3);
}
