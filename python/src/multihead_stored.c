/* fovea.MultiHead: made of its description, and as bytes, for pickle: the description, and what its weights became, which every machine packs anew.
 *
 * Bytes: a header of int64_t, the two structs of the description, then each weight [out, in] with its bias in float32, and the two
 * norms; each block is filled up to 8 bytes. A layer comes back as FACTORED, MERGED, TIED or PROJECTED.
 */
#include "multihead.h"
#include "objects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    self->o_bias = weights->o_bias != NULL;
    for (int i = 0; i < 2; i++)
        if (norms[i] && (!(self->norm[i] = malloc((size_t)n * sizeof(float))) ||
                         fovea_convert(n, norms[i], weights->bias_dtype, self->norm[i], FOVEA_DTYPE_F32) != FOVEA_OK)) {
            PyErr_NoMemory();
            return -1;
        }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ bytes -- */

enum { Q, K, V, O, WEIGHTS, VERSION = 1, WORD = sizeof(int64_t) };

typedef struct matrix_header {
    int64_t there, dtype, in, out;
} matrix_header;

typedef struct header {
    char magic[8];
    int64_t version, bytes, checksum; /* bytes: of all; checksum: of what follows */
    int64_t desc, attention;          /* sizes of the structs */
    int64_t o_bias, norm[2];          /* are they there? */
    matrix_header matrix[WEIGHTS];
} header;

static const char magic[8] = "FoveaMHA";

/* Where blocks are, or -1 in bytes: too large. */
typedef struct places {
    int64_t desc, attention, weight[WEIGHTS], bias[WEIGHTS], norm[2], bytes;
} places;

static int64_t take(int64_t *at, int64_t count, int64_t size) {
    const int64_t begin = *at;
    int64_t bytes;
    if (begin < 0 || count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(begin, bytes, at) || *at > INT64_MAX - WORD) {
        *at = -1;
        return 0;
    }
    *at = (*at + WORD - 1) / WORD * WORD;
    return begin;
}

static places lay_out(const header *h, int64_t head_dim) {
    places p = {.bytes = sizeof *h};
    p.desc = take(&p.bytes, 1, h->desc);
    p.attention = take(&p.bytes, 1, h->attention);
    for (int i = 0; i < WEIGHTS; i++) {
        const matrix_header *m = &h->matrix[i];
        const bool there = m->there && m->in >= 0 && m->out >= 0;
        const int64_t size = m->dtype == FOVEA_DTYPE_F32 ? 4 : 2;
        const int64_t columns = there && (m->out == 0 || m->in <= INT64_MAX / m->out) ? m->out : there ? -1 : 0;
        p.weight[i] = take(&p.bytes, columns, there ? m->in * size : 0);
        p.bias[i] = take(&p.bytes, columns, sizeof(float));
    }
    for (int i = 0; i < 2; i++)
        p.norm[i] = take(&p.bytes, h->norm[i] ? head_dim : 0, sizeof(float));
    return p;
}

/* Describes the weights of a layer. 0, or -1 with ValueError: they cannot be told apart any more. */
static int describe(const py_multihead *self, header *h, const fovea_linear *map[WEIGHTS], int64_t part[WEIGHTS]) {
    const fovea_mha_form form = self->desc.form;
    for (int i = 0; i < WEIGHTS; i++) {
        matrix_header *m = &h->matrix[i];
        fovea_dtype dtype = FOVEA_DTYPE_F32;
        if (fovea_mha_linear(self->first, i, &map[i], &part[i], &m->in, &m->out) != FOVEA_OK)
            return py_raise(PyExc_ValueError, "%s", fovea_error_detail());
        m->there = map[i] != NULL;
        if (m->there)
            (void)fovea_linear_unpack(map[i], part[i], NULL, NULL, &dtype);
        m->dtype = dtype;
    }
    if (!h->matrix[V].there && form != FOVEA_MHA_TIED && form != FOVEA_MHA_PROJECTED)
        return py_raise(PyExc_ValueError, "a MultiHead with folded values (fold_values) cannot be stored: store its "
                                          "weights, and make it of them again");
    return 0;
}

/* Of a merged layer whose q_bias went into its product, which no constructor takes. */
static int check_biases(const py_multihead *self, const header *h, const char *data, const places *p) {
    for (int i = Q; i <= K; i++)
        for (int64_t j = 0; self->desc.form == FOVEA_MHA_MERGED && h->matrix[i].there && j < h->matrix[i].out; j++) {
            float bias;
            memcpy(&bias, data + p->bias[i] + j * (int64_t)sizeof bias, sizeof bias);
            if (bias != 0 || !signbit(bias))
                return py_raise(PyExc_ValueError, "a merged MultiHead with q_bias cannot be stored: store its weights, "
                                                  "and make it of them again");
        }
    return 0;
}

/* The arithmetic that 'fastest' is here. */
static int resolve(const py_multihead *self, fovea_attention_desc *attention) {
    if (attention->arithmetic != FOVEA_ARITHMETIC_FASTEST)
        return 0;
    py_plan *plan = py_plan_make(self->context, attention);
    if (plan)
        attention->arithmetic = fovea_attention_plan_arithmetic(plan->library);
    py_plan_drop(plan);
    return plan ? 0 : -1;
}

static PyObject *to_bytes(const py_multihead *self) {
    header h = {.version = VERSION,
                .desc = sizeof self->desc,
                .attention = sizeof self->attention,
                .o_bias = self->o_bias,
                .norm = {self->norm[0] != NULL, self->norm[1] != NULL}};
    const fovea_linear *map[WEIGHTS];
    int64_t part[WEIGHTS];
    fovea_mha_desc desc = self->desc;
    fovea_attention_desc attention = self->attention;
    memcpy(h.magic, magic, sizeof magic);
    if (describe(self, &h, map, part) < 0 || resolve(self, &attention) < 0)
        return NULL;
    if (desc.form == FOVEA_MHA_FOLDED || desc.form == FOVEA_MHA_FUSED)
        desc.form = FOVEA_MHA_FACTORED;
    desc.fold_values = FOVEA_MHA_FOLD_NEVER;
    desc.biases = 1;
    desc.attention = NULL;
    const places p = lay_out(&h, attention.head_dim);
    h.bytes = p.bytes;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)h.bytes);
    if (!bytes)
        return NULL;
    char *data = PyBytes_AsString(bytes);
    memset(data, 0, (size_t)h.bytes);
    memcpy(data + p.desc, &desc, sizeof desc);
    memcpy(data + p.attention, &attention, sizeof attention);
    for (int i = 0; i < WEIGHTS; i++)
        if (map[i])
            (void)fovea_linear_unpack(map[i], part[i], data + p.weight[i], (float *)(void *)(data + p.bias[i]), NULL);
    for (int i = 0; i < 2; i++)
        if (self->norm[i])
            memcpy(data + p.norm[i], self->norm[i], (size_t)attention.head_dim * sizeof(float));
    memcpy(data, &h, sizeof h);
    h.checksum = py_checksum(data + offsetof(header, desc), data + h.bytes);
    memcpy(data, &h, sizeof h);
    if (check_biases(self, &h, data, &p) == 0)
        return bytes;
    Py_DECREF(bytes);
    return NULL;
}

PyObject *py_multihead_reduce(PyObject *self, PyObject *none) {
    (void)none;
    PyObject *bytes = to_bytes((const py_multihead *)self), *args = bytes ? PyTuple_Pack(1, bytes) : NULL;
    PyObject *arguments = args ? py_arguments(args, NULL) : NULL;
    PyObject *result = arguments ? py_stored("reduce", "MultiHead", "_from_bytes", arguments) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(args);
    Py_XDECREF(arguments);
    return result;
}

/* 0 with the descriptions, or -1 with ValueError. */
static int check(const header *h, int64_t bytes, py_multihead *self, places *p) {
    const char *data = (const char *)h;
    if (bytes < (int64_t)sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0)
        return py_raise(PyExc_ValueError, "not a stored fovea.MultiHead");
    if (h->version != VERSION || h->desc > (int64_t)sizeof self->desc || h->attention > (int64_t)sizeof self->attention)
        return py_raise(PyExc_ValueError,
                        "the fovea.MultiHead is stored in form %lld of a newer version of fovea; this "
                        "one knows form %d",
                        (long long)h->version, VERSION);
    if (h->bytes != bytes || bytes % WORD != 0)
        return py_raise(PyExc_ValueError, "the stored fovea.MultiHead is cut off: %lld bytes of %lld", (long long)bytes,
                        (long long)h->bytes);
    if (h->checksum != py_checksum(&h->desc, data + bytes))
        return py_raise(PyExc_ValueError, "the stored fovea.MultiHead is damaged: its checksum is wrong");
    *p = lay_out(h, 0);
    bool fits = h->desc >= WORD && h->attention >= WORD && p->bytes >= 0 && p->bytes <= bytes;
    if (fits) {
        memcpy(&self->desc, data + p->desc, (size_t)h->desc);
        memcpy(&self->attention, data + p->attention, (size_t)h->attention);
        self->desc.struct_size = sizeof self->desc;
        self->attention.struct_size = sizeof self->attention;
        *p = lay_out(h, self->attention.head_dim);
        fits = p->bytes == bytes && self->attention.q_heads >= 1;
    }
    return fits ? 0 : py_raise(PyExc_ValueError, "the stored fovea.MultiHead contradicts itself");
}

/* What fovea_mha_create() takes them for. merged: room for the matrices of the heads. */
static void gather(const header *h, const char *data, const places *p, const py_multihead *self, fovea_mha_weights *w,
                   fovea_matrix *merged) {
    fovea_matrix *to[WEIGHTS] = {&w->q, &w->k, &w->v, &w->o};
    const void **bias[WEIGHTS] = {&w->q_bias, &w->k_bias, &w->v_bias, &w->o_bias};
    const bool joined = self->desc.form == FOVEA_MHA_MERGED;
    fovea_mha_weights_init(w);
    for (int i = 0; i < WEIGHTS; i++) {
        const matrix_header *m = &h->matrix[i];
        const fovea_matrix matrix = fovea_matrix_out_in(data + p->weight[i], (fovea_dtype)m->dtype, m->out, m->in);
        if (!m->there)
            continue;
        if (joined && i <= K) { /* columns of head after head: W_i, or, of keys, transposed */
            const int64_t heads = self->attention.q_heads, width = m->out / heads;
            for (int64_t head = 0; head < heads; head++) {
                const char *at = data + p->weight[i] + head * width * m->in * (m->dtype == FOVEA_DTYPE_F32 ? 4 : 2);
                merged[head] = i == Q ? fovea_matrix_out_in(at, matrix.dtype, width, m->in)
                                      : fovea_matrix_in_out(at, matrix.dtype, width, m->in);
            }
            w->merged = merged;
        } else {
            *to[i] = matrix;
            if (i != O || h->o_bias)
                *bias[i] = data + p->bias[i];
        }
    }
    w->q_norm = h->norm[0] ? data + p->norm[0] : NULL;
    w->k_norm = h->norm[1] ? data + p->norm[1] : NULL;
}

PyObject *py_multihead_from_bytes(PyObject *type, PyObject *stored) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(stored, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    const int64_t bytes = buffer.len;
    char *copy = malloc((size_t)bytes + sizeof(header)); /* its own: aligned, and no one changes it meanwhile */
    py_multihead *self = copy ? (py_multihead *)py_object_new((PyTypeObject *)type) : NULL;
    fovea_matrix *merged = NULL;
    places p;
    int status = -1;
    if (self) {
        memcpy(copy, buffer.buf, (size_t)bytes);
        fovea_mha_desc_init(&self->desc);
        fovea_attention_desc_init(&self->attention);
        status = check((const header *)(const void *)copy, bytes, self, &p);
    } else
        PyErr_NoMemory();
    PyBuffer_Release(&buffer);
    if (status == 0 && self->attention.q_heads <= bytes && /* at least that many columns */
        !(merged = malloc((size_t)self->attention.q_heads * sizeof *merged)))
        PyErr_NoMemory();
    if (merged) {
        const header *h = (const header *)(const void *)copy;
        fovea_mha_weights weights;
        gather(h, copy, &p, self, &weights, merged);
        status = py_multihead_create(self, &weights);
    } else if (status == 0 && !PyErr_Occurred())
        status = py_raise(PyExc_ValueError, "the stored fovea.MultiHead contradicts itself");
    free(merged);
    free(copy);
    if (status == 0 && !PyErr_Occurred())
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}
