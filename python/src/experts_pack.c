/* Making fovea.Experts: opens the stacks of matrices, quantizes them where that is asked for, packs them. */
#include "arithmetic.h"
#include "experts.h"
#include "keywords.h"
#include "linear_weights.h"
#include "objects.h"

#include <stdlib.h>
#include <string.h>

enum { GATE, UP, DOWN, MAPS };

/* One stack: [experts] matrices. */
typedef struct stack {
    const char *name, *bias_name, *scales_name;
    PyObject *object, *bias, *scales;
    py_array array, bias_array, scales_array;
    bool opened, bias_opened, scales_opened;
    fovea_matrix *matrix;             /* [experts], from malloc, */
    fovea_quantization *quantization; /* as are these, where matrices have them, */
    void *memory;                     /* and their integers */
    fovea_dtype bias_dtype;
} stack;

typedef struct making {
    py_core *core;
    stack stacks[MAPS];
    bool in_first;
    fovea_dtype kind; /* of FP8 or blocks that are given, or 0 */
    const char *quant;
    fovea_dtype quant_dtype;
    int64_t experts;
    fovea_experts_desc desc;
} making;

static void close_stack(stack *s) {
    if (s->opened)
        py_array_close(&s->array);
    if (s->bias_opened)
        py_array_close(&s->bias_array);
    if (s->scales_opened)
        py_array_close(&s->scales_array);
    free(s->matrix);
    free(s->quantization);
    free(s->memory);
}

/* A matrix of floats, FP8 or rows of blocks, of an open array [experts, ...]. */
static int matrix_of(const making *m, const stack *s, fovea_matrix *to) {
    const py_array *a = &s->array;
    if (m->kind == FOVEA_DTYPE_F8_E4M3) {
        *to = fovea_matrix_out_in(a->data, m->kind, a->shape[1], a->shape[2]);
        return s->scales ? py_expect_fp8(a, s->name)
                         : py_raise(PyExc_TypeError, "%s is needed of kind='fp8'", s->scales_name);
    }
    if (m->kind) {
        const int64_t block = py_weight_block(m->kind), bytes = py_weight_bytes(m->kind, block);
        if (a->dtype != PY_U8)
            return py_raise(PyExc_TypeError, "%s must be uint8, the bytes of blocks, not %s", s->name,
                            py_array_dtype_name(a));
        if (s->scales) { /* codes alone, two in a byte */
            *to = fovea_matrix_out_in(a->data, m->kind, a->shape[1], a->shape[2] * 2);
            return 0;
        }
        if (a->shape[2] % bytes != 0)
            return py_raise(PyExc_ValueError, "%s has rows of %lld bytes; blocks have %lld", s->name,
                            (long long)a->shape[2], (long long)bytes);
        *to = fovea_matrix_out_in(a->data, m->kind, a->shape[1], a->shape[2] / bytes * block);
        return 0;
    }
    const int in = m->in_first ? 1 : 2, out = 3 - in;
    *to = (fovea_matrix){.data = a->data,
                         .in = a->shape[in],
                         .out = a->shape[out],
                         .in_stride = a->stride[in],
                         .out_stride = a->stride[out]};
    return py_array_float(a, s->name, &to->dtype);
}

static int no_memory(void) {
    PyErr_NoMemory();
    return -1;
}

enum { EXPERTS_MOST = 2048 }; /* fovea/experts.h */

static int open_stack(making *m, stack *s) {
    if (!s->object || s->object == Py_None)
        return 0;
    if (py_array_open(m->core, s->object, s->name, &s->array) < 0)
        return -1;
    s->opened = true;
    if (s->scales && m->kind && s->array.ndim == 4 && s->array.dtype == PY_U8) { /* [experts, out, groups, bytes] */
        if (py_array_copy(&s->array) < 0)
            return -1;
        s->array.shape[2] *= s->array.shape[3];
        s->array.stride[2] = 1;
        s->array.ndim = 3;
    }
    if (s->array.ndim != 3)
        return py_raise(PyExc_ValueError, "%s has %d dimensions, not 3: a matrix of each expert", s->name,
                        s->array.ndim);
    if (s->array.shape[0] < 1 || s->array.shape[0] > EXPERTS_MOST)
        return py_raise(PyExc_ValueError, "%s is of %lld experts; there must be from 1 to %d", s->name,
                        (long long)s->array.shape[0], EXPERTS_MOST);
    if (m->experts == 0)
        m->experts = s->array.shape[0];
    if (s->array.shape[0] != m->experts)
        return py_raise(PyExc_ValueError, "%s is of %lld experts, up of %lld", s->name, (long long)s->array.shape[0],
                        (long long)m->experts);
    fovea_matrix first;
    if ((m->kind && py_array_copy(&s->array) < 0) || matrix_of(m, s, &first) < 0)
        return -1;
    s->matrix = malloc((size_t)(m->experts + 1) * sizeof *s->matrix);
    if (!s->matrix)
        return no_memory();
    const size_t size = m->kind ? 1 : py_dtype_size(s->array.dtype);
    for (int64_t e = 0; e < m->experts; e++) {
        s->matrix[e] = first;
        s->matrix[e].data = (const char *)first.data + (size_t)(e * s->array.stride[0]) * size;
    }
    return 0;
}

/* Scales that are apart: bytes of MXFP4 [experts, out, in / 32]; floats of FP8 [experts, out, 1], or of squares. */
static int open_scales(const making *m, stack *s) {
    if (!s->scales || !s->matrix)
        return 0;
    const bool floats = m->kind == FOVEA_DTYPE_F8_E4M3;
    if (!floats && m->kind != FOVEA_DTYPE_MXFP4)
        return py_raise(PyExc_TypeError, "%s is of kind='gguf:MXFP4' and 'fp8' alone", s->scales_name);
    py_array *a = &s->scales_array;
    if (py_array_open(m->core, s->scales, s->scales_name, a) < 0)
        return -1;
    s->scales_opened = true;
    fovea_quantization q;
    fovea_quantization_init(&q);
    if (!floats && a->dtype != PY_U8)
        return py_raise(PyExc_TypeError, "%s must be uint8, not %s", s->scales_name, py_array_dtype_name(a));
    if (floats && py_array_float(a, s->scales_name, &q.scale_dtype) < 0)
        return -1;
    const int64_t out = s->matrix[0].out, in = s->matrix[0].in;
    const bool squares = floats && a->ndim == 3 && a->shape[1] != out;
    const int64_t groups = !floats ? in / py_weight_block(m->kind) : squares ? (in + PY_SQUARE - 1) / PY_SQUARE : 1;
    const int64_t shape[3] = {m->experts, squares ? (out + PY_SQUARE - 1) / PY_SQUARE : out, groups};
    if (a->ndim != 3 || memcmp(a->shape, shape, sizeof shape) != 0)
        return py_wrong_shape(s->scales_name, a, 3, shape);
    if (py_array_copy(a) < 0)
        return -1;
    if (floats) {
        q.group_size = squares ? PY_SQUARE : in;
        q.out_group_size = squares ? PY_SQUARE : 0;
    }
    s->quantization = malloc((size_t)m->experts * sizeof *s->quantization + 1);
    if (!s->quantization)
        return no_memory();
    for (int64_t e = 0; e < m->experts; e++) {
        s->quantization[e] = q;
        s->quantization[e].group_scales =
            (const char *)a->data + (size_t)(e * shape[1] * groups) * py_dtype_size(a->dtype);
        s->matrix[e].quantization = &s->quantization[e];
    }
    return 0;
}

/* Biases of all experts, [experts, out]. */
static int open_bias(making *m, stack *s) {
    if (!s->bias || s->bias == Py_None)
        return 0;
    if (py_array_open(m->core, s->bias, s->bias_name, &s->bias_array) < 0)
        return -1;
    s->bias_opened = true;
    const int64_t shape[2] = {m->experts, s->matrix ? s->matrix[0].out : 0};
    if (py_array_float(&s->bias_array, s->bias_name, &s->bias_dtype) < 0)
        return -1;
    if (s->bias_array.ndim != 2 || s->bias_array.shape[0] != shape[0] || s->bias_array.shape[1] != shape[1])
        return py_wrong_shape(s->bias_name, &s->bias_array, 2, shape);
    return py_array_copy(&s->bias_array);
}

/* Replaces matrices of floats by quantized ones. */
static int quantize(making *m, stack *s, const fovea_context *context) {
    if (!s->matrix || !m->quant)
        return 0;
    if (m->kind)
        return py_raise(PyExc_TypeError, "quantization is for weights of floats, not of a kind");
    const int64_t in = s->matrix[0].in, out = s->matrix[0].out;
    size_t data, scales;
    if (py_checked(fovea_quantize_size(m->quant_dtype, in, out, NULL, &data, &scales)) < 0)
        return -1;
    const size_t each = (data + scales + 63) / 64 * 64;
    s->memory = malloc(each * (size_t)m->experts + 1);
    s->quantization = malloc((size_t)m->experts * sizeof *s->quantization + 1);
    if (!s->memory || !s->quantization)
        return no_memory();
    fovea_status status = FOVEA_OK;
    PyThreadState *released = PyEval_SaveThread();
    for (int64_t e = 0; status == FOVEA_OK && e < m->experts; e++) {
        char *to = (char *)s->memory + (size_t)e * each;
        status = fovea_quantize(context, &s->matrix[e], m->quant_dtype, NULL, to, to + data, NULL);
        s->matrix[e] = py_quantized_matrix(m->quant_dtype, in, out, to, to + data, &s->quantization[e]);
    }
    PyEval_RestoreThread(released);
    return py_checked(status);
}

static int pack(making *m, py_experts *self) {
    stack *const s = m->stacks;
    py_context *context = py_context_now();
    if (!context || open_stack(m, &s[UP]) < 0 || open_stack(m, &s[DOWN]) < 0 || open_stack(m, &s[GATE]) < 0)
        return -1;
    if (!s[UP].matrix || !s[DOWN].matrix)
        return py_raise(PyExc_TypeError, "%s is None", s[UP].matrix ? "down" : "up");
    fovea_experts_weights weights;
    fovea_experts_weights_init(&weights);
    for (int i = 0; i < MAPS; i++) {
        if (open_bias(m, &s[i]) < 0 || open_scales(m, &s[i]) < 0 || quantize(m, &s[i], context->library) < 0)
            return -1;
        if (s[i].bias_opened &&
            s[i].bias_dtype != (weights.up_bias || weights.gate_bias ? weights.bias_dtype : s[i].bias_dtype))
            return py_raise(PyExc_TypeError, "biases are of different types");
        if (s[i].bias_opened)
            weights.bias_dtype = s[i].bias_dtype;
        if (i == GATE && s[i].bias_opened)
            weights.gate_bias = s[i].bias_array.data;
        if (i == UP && s[i].bias_opened)
            weights.up_bias = s[i].bias_array.data;
    }
    weights.down_bias = s[DOWN].bias_opened ? s[DOWN].bias_array.data : NULL;
    weights.gate = s[GATE].matrix;
    weights.up = s[UP].matrix;
    weights.down = s[DOWN].matrix;
    fovea_experts_desc *d = &m->desc;
    d->experts = m->experts;
    d->in_features = s[UP].matrix[0].in;
    d->intermediate = s[DOWN].matrix[0].in;
    d->out_features = s[DOWN].matrix[0].out;
    self->experts = d->experts;
    self->in_features = d->in_features;
    self->intermediate = d->intermediate;
    self->out_features = d->out_features;
    self->dtype = d->dtype;
    self->weight_dtype = s[UP].matrix[0].dtype;
    self->activation = d->activation;
    self->context = py_context_keep(context);
    PyThreadState *released = PyEval_SaveThread();
    const fovea_status status = fovea_experts_create(context->library, d, &weights, &self->library);
    PyEval_RestoreThread(released);
    return py_checked(status);
}

/* The type of x, that of up unless it is given, and the arithmetic. */
static int types_of(making *m, PyObject *dtype, PyObject *arithmetic) {
    fovea_experts_desc *d = &m->desc;
    py_array array;
    if (!m->kind && !m->quant) {
        if (py_array_open(m->core, m->stacks[UP].object, "up", &array) < 0)
            return -1;
        const int status = py_array_float(&array, "up", &d->dtype);
        py_array_close(&array);
        if (status < 0)
            return -1;
    }
    if (py_float_of(dtype, &d->dtype) < 0)
        return -1;
    return py_arithmetic_of_weights(arithmetic, &d->arithmetic);
}

PyObject *py_experts_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static const char *const ways[] = {"separate", "concatenated", "interleaved"};
    making m = {.core = PyType_GetModuleState(type),
                .stacks = {{.name = "gate", .bias_name = "gate_bias", .scales_name = "gate_scales"},
                           {.name = "up", .bias_name = "up_bias", .scales_name = "up_scales"},
                           {.name = "down", .bias_name = "down_bias", .scales_name = "down_scales"}}};
    stack *const s = m.stacks;
    const char *layout = "out_in";
    PyObject *activation = NULL, *gate_up = NULL, *limit = NULL, *dtype = NULL, *arithmetic = NULL, *quant = NULL,
             *kind = NULL;
    fovea_experts_desc_init(&m.desc);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O$OOOOOsOddOOOOOOO:Experts", py_experts_names, &s[UP].object,
                                     &s[DOWN].object, &s[GATE].object, &s[UP].bias, &s[DOWN].bias, &s[GATE].bias,
                                     &activation, &gate_up, &layout, &limit, &m.desc.alpha, &m.desc.up_offset, &dtype,
                                     &arithmetic, &quant, &kind, &s[UP].scales, &s[DOWN].scales, &s[GATE].scales))
        return py_wrong_arguments("Experts", keywords);
    int way = 0;
    if (py_matrix_layout(layout, &m.in_first) < 0 ||
        (activation && py_activation_of(activation, &m.desc.activation) < 0) ||
        (gate_up && (way = py_word(gate_up, "gate_up", NULL, ways, 3)) < 0) ||
        (limit && limit != Py_None && py_number(limit, "limit", &m.desc.limit) < 0) ||
        py_quant_of(quant, &m.quant, &m.quant_dtype) < 0 ||
        (kind && kind != Py_None && py_stack_kind(kind, &m.kind) < 0) || types_of(&m, dtype, arithmetic) < 0)
        return NULL;
    m.desc.gate_up = (fovea_gate_up)way;
    for (int i = 0; i < MAPS; i++)
        s[i].scales = s[i].scales == Py_None ? NULL : s[i].scales;
    py_experts *self = (py_experts *)py_object_new(type);
    if (self && pack(&m, self) < 0)
        Py_CLEAR(self);
    for (int i = 0; i < MAPS; i++)
        close_stack(&s[i]);
    return (PyObject *)self;
}
