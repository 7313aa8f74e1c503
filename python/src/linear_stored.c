/* Weights of fovea.Linear, given back: into arrays, and as bytes that every machine packs anew.
 *
 * Bytes: a header of int64_t, then for each matrix its weights [out, in] in the type in which they are packed and, where it has
 * one, its bias in float32; each block is filled up to 8 bytes. Numbers are little-endian.
 */
#include "linear.h"
#include "objects.h"

#include <stdlib.h>
#include <string.h>

int py_linear_part_of(PyObject *number, int64_t count, int64_t *part) {
    if (py_integer(number, "part", part) < 0)
        return -1;
    if (*part < 0 || *part >= count)
        return py_raise(PyExc_ValueError, "part is %lld, but the map has parts 0 to %lld", (long long)*part,
                        (long long)count - 1);
    return 0;
}

const char py_linear_unpack_doc[] =
    "unpack(weight, bias=None, *, part=0)\n--\n\n"
    "Writes the packed weights of a matrix into weight, [out, in] and contiguous, of weight_dtype: the bits that were "
    "packed. bias: [out],\n"
    "float32, likewise; -0.0 where there is none (has_bias). part: of several matrices; of silu_gated 0 is the gate.";

PyObject *py_linear_unpack(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"weight", "bias", "part", NULL};
    const py_linear *linear = (const py_linear *)self;
    py_core *core = py_core_of_object(self);
    PyObject *weight, *bias = Py_None, *number = NULL;
    int64_t part = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$O:unpack", names, &weight, &bias, &number) ||
        (number && py_linear_part_of(number, linear->matrices, &part) < 0))
        return NULL;
    const int64_t out = linear->out[part], shape[2] = {out, linear->in_features};
    py_array w = {0}, b = {0};
    int status = py_given(core, weight, "weight", linear->weight_dtype, 2, shape, &w);
    if (status == 0 && ((w.shape[1] > 1 && w.stride[1] != 1) || (w.shape[0] > 1 && w.stride[0] != w.shape[1])))
        status = py_raise(PyExc_ValueError, "weight is not contiguous");
    if (status == 0 && bias != Py_None)
        status = py_given(core, bias, "bias", FOVEA_DTYPE_F32, 1, &out, &b);
    if (status == 0 && b.data && out > 1 && b.stride[0] != 1)
        status = py_raise(PyExc_ValueError, "bias is not contiguous");
    if (status == 0) {
        PyThreadState *released = PyEval_SaveThread();
        (void)fovea_linear_unpack(linear->library, part, w.data, b.data, NULL);
        PyEval_RestoreThread(released);
    }
    py_array_close(&w);
    py_array_close(&b);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------------------------------ bytes -- */

typedef struct matrix_header {
    int64_t out, heads, biased;
} matrix_header;

typedef struct header {
    char magic[8];
    int64_t version, bytes, checksum; /* bytes: of all; checksum: of what follows */
    int64_t dtype, weight_dtype, activation, arithmetic, in_features, matrices, several;
    matrix_header matrix[PY_LINEAR_PARTS];
} header;

static const char magic[8] = "FoveaLin";
enum { VERSION = 1, WORD = sizeof(int64_t) };

static int64_t whole_words(int64_t bytes) { return (bytes + WORD - 1) / WORD * WORD; }

int64_t py_checksum(const void *from, const void *end) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325), word;
    for (const char *at = from; at < (const char *)end; at += WORD) {
        memcpy(&word, at, WORD);
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
        sum ^= sum >> 32;
    }
    return (int64_t)(sum & INT64_MAX);
}

static int64_t checksum_of(const header *h) { return py_checksum(&h->dtype, (const char *)h + h->bytes); }

/* Bytes of a matrix, and of its bias. */
static int64_t weight_bytes(const header *h, int64_t i) {
    return whole_words(h->matrix[i].out * h->in_features *
                       (int64_t)py_dtype_size(py_float_dtype((fovea_dtype)h->weight_dtype)));
}

static int64_t bias_bytes(const header *h, int64_t i) {
    return h->matrix[i].biased ? whole_words(h->matrix[i].out * (int64_t)sizeof(float)) : 0;
}

const char py_linear_to_bytes_doc[] =
    "to_bytes()\n--\n\n"
    "The map as bytes, for from_bytes() on any machine: weights and biases as they were packed (scale is in them), and "
    "what else the\n"
    "constructor was told, with a checksum. pickle and torch.save() store these bytes.";

PyObject *py_linear_to_bytes(PyObject *self, PyObject *none) {
    (void)none;
    const py_linear *linear = (const py_linear *)self;
    header h = {.version = VERSION,
                .bytes = sizeof h,
                .dtype = linear->dtype,
                .weight_dtype = linear->weight_dtype,
                .activation = linear->activation,
                .arithmetic = linear->arithmetic,
                .in_features = linear->in_features,
                .matrices = linear->matrices,
                .several = linear->several};
    memcpy(h.magic, magic, sizeof magic);
    for (int64_t i = 0; i < h.matrices; i++) {
        h.matrix[i] = (matrix_header){linear->out[i], linear->heads[i], linear->biased[i]};
        h.bytes += weight_bytes(&h, i) + bias_bytes(&h, i);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)h.bytes);
    if (!bytes)
        return NULL;
    char *data = PyBytes_AsString(bytes), *at = data + sizeof h;
    PyThreadState *released = PyEval_SaveThread();
    memcpy(data, &h, sizeof h);
    for (int64_t i = 0; i < h.matrices; i++) {
        char *bias = at + weight_bytes(&h, i);
        memset(bias - (bias > at ? WORD : 0), 0, WORD); /* what fills the block up */
        if (h.matrix[i].biased)
            memset(bias + bias_bytes(&h, i) - WORD, 0, WORD);
        (void)fovea_linear_unpack(linear->library, i, at, h.matrix[i].biased ? (float *)(void *)bias : NULL, NULL);
        at = bias + bias_bytes(&h, i);
    }
    h.checksum = checksum_of((const header *)(const void *)data);
    memcpy(data, &h, sizeof h);
    PyEval_RestoreThread(released);
    return bytes;
}

PyObject *py_linear_reduce(PyObject *self, PyObject *none) {
    PyObject *bytes = py_linear_to_bytes(self, none), *args = bytes ? PyTuple_Pack(1, bytes) : NULL;
    PyObject *arguments = args ? py_arguments(args, NULL) : NULL;
    PyObject *result = arguments ? py_stored("reduce", "Linear", "from_bytes", arguments) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(args);
    Py_XDECREF(arguments);
    return result;
}

/* 0, or -1 with ValueError. */
static int check(const header *h, int64_t bytes) {
    const char *wrong =
        bytes < (int64_t)sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0 ? "not a stored fovea.Linear" : NULL;
    if (!wrong && h->version != VERSION)
        return py_raise(PyExc_ValueError,
                        "the fovea.Linear is stored in form %lld; this version of fovea knows form %d",
                        (long long)h->version, VERSION);
    if (!wrong && (h->bytes != bytes || bytes % WORD != 0))
        return py_raise(PyExc_ValueError, "the stored fovea.Linear is cut off: %lld bytes of %lld", (long long)bytes,
                        (long long)h->bytes);
    if (!wrong && h->checksum != checksum_of(h))
        wrong = "the stored fovea.Linear is damaged: its checksum is wrong";
    const bool gated = !wrong && h->activation == FOVEA_ACTIVATION_SILU_GATED;
    bool fits = !wrong &&
                (h->dtype == FOVEA_DTYPE_F32 || h->dtype == FOVEA_DTYPE_BF16 || h->dtype == FOVEA_DTYPE_F16) &&
                (h->weight_dtype == FOVEA_DTYPE_F32 || h->weight_dtype == FOVEA_DTYPE_BF16 ||
                 h->weight_dtype == FOVEA_DTYPE_F16) &&
                h->activation >= FOVEA_ACTIVATION_NONE && h->activation <= FOVEA_ACTIVATION_SILU_GATED &&
                h->arithmetic >= FOVEA_ARITHMETIC_EXACT && h->arithmetic <= FOVEA_ARITHMETIC_FASTEST &&
                h->in_features >= 1 && h->in_features <= bytes && h->matrices >= 1 && h->matrices <= PY_LINEAR_PARTS &&
                (h->several == 0 || h->several == 1) && (h->several || h->matrices == (gated ? 2 : 1));
    int64_t left = bytes - (int64_t)sizeof *h;
    for (int64_t i = 0; fits && i < h->matrices; i++) {
        const matrix_header *m = &h->matrix[i];
        fits = m->out >= 1 && m->out <= left / h->in_features && m->heads >= 0 &&
               (m->heads == 0 || m->out % m->heads == 0) && (m->biased == 0 || m->biased == 1);
        left -= fits ? weight_bytes(h, i) + bias_bytes(h, i) : 0;
        fits = fits && left >= 0;
    }
    if (wrong || !fits || left != 0)
        return py_raise(PyExc_ValueError, "%s", wrong ? wrong : "the stored fovea.Linear contradicts itself");
    return 0;
}

const char py_linear_from_bytes_doc[] =
    "from_bytes(data, /)\n--\n\n"
    "The map that to_bytes() stored: packed anew for this machine, with results of the same bits. data is not trusted. "
    "ValueError: it\n"
    "is no such map, cut off, damaged, or of a form that this version does not know.";

PyObject *py_linear_from_bytes(PyObject *type, PyObject *data) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    const int64_t bytes = buffer.len;
    char *copy = malloc((size_t)bytes + sizeof(header)); /* its own: aligned, and no one changes it meanwhile */
    if (copy)
        memcpy(copy, buffer.buf, (size_t)bytes);
    PyBuffer_Release(&buffer);
    if (!copy)
        return PyErr_NoMemory();
    const header *h = (const header *)(const void *)copy;
    py_linear *self = check(h, bytes) == 0 ? (py_linear *)py_object_new((PyTypeObject *)type) : NULL;
    fovea_linear_part parts[PY_LINEAR_PARTS] = {0};
    int status = self ? 0 : -1;
    if (self) {
        self->dtype = (fovea_dtype)h->dtype;
        self->activation = (fovea_activation)h->activation;
        self->arithmetic = (fovea_arithmetic)h->arithmetic;
        self->in_features = h->in_features;
        self->count = h->matrices;
        self->several = (int)h->several;
        const char *at = copy + sizeof *h;
        for (int64_t i = 0; i < h->matrices; i++) {
            self->out[i] = h->matrix[i].out;
            self->heads[i] = h->matrix[i].heads;
            parts[i].weight = fovea_matrix_out_in(at, (fovea_dtype)h->weight_dtype, h->matrix[i].out, h->in_features);
            at += weight_bytes(h, i);
            parts[i].bias = h->matrix[i].biased ? at : NULL;
            parts[i].bias_dtype = FOVEA_DTYPE_F32;
            at += bias_bytes(h, i);
        }
        status = py_linear_pack(self, parts);
    }
    free(copy);
    if (status == 0)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}
