/* Weights of fovea.MultiHead() that are packed already: a fovea.Linear, or what quantization= makes of an array. Their
 * rows are read as they are, and packed again, so that q, k and v of one kind are one product. */
#include "arithmetic.h"
#include "multihead_weights.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(fovea_mha_weights, field)
const py_mha_place py_mha_places[PY_W_COUNT] = {{"q", "q_bias", AT(q), AT(q_bias), AT(q_head_stride)},
                                                {"k", "k_bias", AT(k), AT(k_bias), AT(k_head_stride)},
                                                {"v", "v_bias", AT(v), AT(v_bias), AT(v_head_stride)},
                                                {"o", "o_bias", AT(o), AT(o_bias), AT(o_head_stride)},
                                                {"fused", "fused_bias", AT(fused), AT(fused_bias), 0},
                                                {"outer_q", "outer_q_bias", AT(outer_q), AT(outer_q_bias), 0},
                                                {"outer_k", "outer_k_bias", AT(outer_k), AT(outer_k_bias), 0},
                                                {"outer_v", "outer_v_bias", AT(outer_v), AT(outer_v_bias), 0}};

static const char *name_of(int i) { return py_mha_places[i].name; }

static const void **bias_of(py_making *m, int i) {
    return (const void **)(void *)((char *)&m->weights + py_mha_places[i].bias);
}

static bool is_linear(const py_making *m, PyObject *object) { return Py_TYPE(object) == m->core->linear_type; }

bool py_making_is_linear(const py_making *m, int i) {
    return is_linear(m, m->matrices[i]) || (m->quant != Py_None && i < PY_W_OUTER_Q);
}

bool py_making_integers(const py_making *m) {
    PyObject *word = m->arithmetic;
    return word && PyUnicode_Check(word) &&
           (PyUnicode_CompareWithASCIIString(word, "q16") == 0 || PyUnicode_CompareWithASCIIString(word, "q8") == 0);
}

/* The fovea.Linear of a weight, a new reference. */
static PyObject *linear_of(const py_making *m, int i) {
    PyObject *given = m->matrices[i];
    if (is_linear(m, given))
        return Py_NewRef(given);
    const bool exact = m->arithmetic && PyUnicode_Check(m->arithmetic) &&
                       PyUnicode_CompareWithASCIIString(m->arithmetic, "exact") == 0;
    PyObject *args = Py_BuildValue("(OO)", given, m->biases[i]),
             *keywords = Py_BuildValue("{sOss}", "quantization", m->quant, "layout", m->layout);
    PyObject *made = NULL;
    if (args && keywords &&
        (!(exact || py_making_integers(m)) || PyDict_SetItemString(keywords, "arithmetic", m->arithmetic) == 0))
        made = PyObject_Call((PyObject *)m->core->linear_type, args, keywords);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return made;
}

/* Records the arithmetic of quantized weights, of which a layer has one. */
static int join_arithmetic(py_making *m, int i, const py_linear *linear) {
    if (!py_dtype_quantized(linear->weight_dtype))
        return 0;
    const fovea_arithmetic arithmetic =
        linear->arithmetic == FOVEA_ARITHMETIC_DEFAULT ? FOVEA_ARITHMETIC_Q16 : linear->arithmetic;
    if (m->quantized && m->arithmetic_of_quantized != arithmetic)
        return py_raise(PyExc_ValueError, "%s has weights of arithmetic %s, others of the layer %s: one serves all",
                        name_of(i), fovea_arithmetic_name(arithmetic),
                        fovea_arithmetic_name(m->arithmetic_of_quantized));
    m->quantized = true;
    m->arithmetic_of_quantized = arithmetic;
    return 0;
}

/* Rows of a fused matrix that are one role's: `count` runs of them, `step` apart. */
typedef struct runs {
    int64_t first, step, count, rows;
} runs;

/* Copies these rows of `bytes` bytes to one block that m frees; NULL without an exception if there is nothing to
 * copy. */
static void *take(py_making *m, const runs *r, const void *from, int64_t bytes) {
    char *to = from ? malloc((size_t)(r->count * r->rows * bytes) + 1) : NULL;
    if (!to) {
        if (from)
            PyErr_NoMemory();
        return NULL;
    }
    m->rows[m->taken++] = to;
    for (int64_t i = 0; i < r->count; i++)
        memcpy(to + i * r->rows * bytes, (const char *)from + (r->first + i * r->step) * bytes,
               (size_t)(r->rows * bytes));
    return to;
}

/* A role's part of a fused matrix, whose rows are one after the other. */
static int take_role(py_making *m, int role, const runs *r, const fovea_linear_part *all) {
    const fovea_matrix *w = &all->weight;
    fovea_matrix *to = py_making_matrix(m, role);
    *to =
        fovea_matrix_out_in(take(m, r, w->data, py_weight_bytes(w->dtype, w->in)), w->dtype, r->count * r->rows, w->in);
    *bias_of(m, role) = take(m, r, all->bias, (int64_t)sizeof(float));
    if (w->quantization) {
        fovea_quantization *q = &m->quantization[role];
        *q = *w->quantization;
        const int64_t groups = q->group_size ? w->in / q->group_size : 1;
        q->scales = take(m, r, q->scales, (int64_t)sizeof(float));
        q->group_scales = take(m, r, q->group_scales, groups * (q->scale_dtype == FOVEA_DTYPE_F32 ? 4 : 2));
        q->zeros = take(m, r, q->zeros, groups);
        to->quantization = q;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* One matrix of all three, in the order of the layer. */
static int split(py_making *m, const fovea_linear_part *all) {
    const int64_t heads = m->heads, kv = m->kv_heads < 0 ? heads : m->kv_heads, out = all->weight.out;
    if (heads < 1 || kv < 1 || heads % kv != 0)
        return py_raise(PyExc_ValueError, "q_heads is %lld and kv_heads %lld: not a multiple", (long long)heads,
                        (long long)kv);
    const int64_t d_k = m->head_dim >= 0 ? m->head_dim : out / (heads + 2 * kv);
    const int64_t d_v = m->value_dim >= 0 ? m->value_dim : d_k, group = heads / kv;
    if (d_k > out || d_v > out || (heads + kv) * d_k + kv * d_v != out)
        return py_raise(PyExc_ValueError,
                        "fused has %lld outputs, not those of %lld heads of %lld, %lld of %lld and %lld "
                        "of %lld channels",
                        (long long)out, (long long)heads, (long long)d_k, (long long)kv, (long long)d_k, (long long)kv,
                        (long long)d_v);
    const bool grouped = strcmp(m->order, "grouped") == 0;
    const int64_t width[PY_ROLES] = {group * d_k, d_k, d_v}, span = (group + 1) * d_k + d_v;
    for (int64_t role = 0, whole = 0, inside = 0; role < PY_ROLES;
         whole += kv * width[role], inside += width[role], role++) {
        const runs r = {grouped ? inside : whole, grouped ? span : width[role], kv, width[role]};
        if (take_role(m, (int)role, &r, all) < 0)
            return -1;
    }
    return 0;
}

/* Part number `part` of a map, as the matrix i of the layer. */
static int read_part(py_making *m, int i, const py_linear *linear, int64_t part, fovea_linear_part *to) {
    m->stored[i] =
        py_matrix_store(linear->library, part, linear->in_features, linear->out[part], linear->biased[part] != 0);
    return m->stored[i] ? py_matrix_restore(m->stored[i], "Linear", &m->quantization[i], to) : -1;
}

static int use_part(py_making *m, int i, const fovea_linear_part *part) {
    *py_making_matrix(m, i) = part->weight;
    *bias_of(m, i) = part->bias;
    return 0;
}

static int open_fused(py_making *m, const py_linear *linear) {
    fovea_linear_part part;
    for (int i = 0; i < PY_ROLES; i++)
        if (m->matrices[i] != Py_None)
            return py_raise(PyExc_ValueError, "fused and %s are given: fused has all three", name_of(i));
    if (m->form && strcmp(m->form, "fused") == 0) /* it is taken apart */
        m->form = NULL;
    if (linear->matrices == 1)
        return read_part(m, PY_W_FUSED, linear, 0, &part) < 0 ? -1 : split(m, &part);
    for (int i = 0; i < PY_ROLES; i++)
        if (read_part(m, i, linear, i, &part) < 0 || use_part(m, i, &part) < 0)
            return -1;
    return 0;
}

static int open_linear(py_making *m, int i, const py_linear *linear) {
    const char *name = name_of(i);
    fovea_linear_part part;
    bool biased = false;
    if (linear->activation != FOVEA_ACTIVATION_NONE)
        return py_raise(PyExc_ValueError, "%s is a fovea.Linear with an activation, which a layer has no place for",
                        name);
    if (linear->matrices != 1 && !(i == PY_W_FUSED && linear->matrices == PY_ROLES))
        return py_raise(PyExc_ValueError, "%s is a fovea.Linear of %lld matrices, not of one%s", name,
                        (long long)linear->matrices, i == PY_W_FUSED ? " or three" : "");
    for (int64_t p = 0; p < linear->matrices; p++)
        biased = biased || linear->biased[p];
    if (is_linear(m, m->matrices[i]) && m->biases[i] != Py_None)
        return py_raise(PyExc_ValueError, "%s is a fovea.Linear, whose bias is its own: %s_bias is given", name, name);
    if (biased && m->typed && m->weights.bias_dtype != FOVEA_DTYPE_F32)
        return py_raise(PyExc_TypeError, "the bias of %s is float32, another bias or norm %s: they must be of one type",
                        name, py_dtype_name(m->weights.bias_dtype));
    if (biased) {
        m->weights.bias_dtype = FOVEA_DTYPE_F32;
        m->biased = m->typed = m->floats = true;
    }
    m->types[i] = linear->dtype;
    if (join_arithmetic(m, i, linear) < 0)
        return -1;
    if (i == PY_W_FUSED)
        return open_fused(m, linear);
    return read_part(m, i, linear, 0, &part) < 0 ? -1 : use_part(m, i, &part);
}

int py_making_linear(py_making *m, int i) {
    PyObject *linear = linear_of(m, i);
    const int status = linear ? open_linear(m, i, (const py_linear *)linear) : -1;
    Py_XDECREF(linear);
    return status;
}
